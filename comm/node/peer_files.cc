#include "comm/node/peer_files.h"

#include <cerrno>
#include <climits>
#include <iterator>
#include <memory>
#include <new>
#include <set>
#include <string>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_fd.h"
#include "base/pages.h"
#include "base/status.h"
#include "comm/node/node_peer.h"
#include "fmt/format.h"

namespace weft {
namespace {

std::string MappingOf(const NodePeer& peer, uint64_t bytes) {
  return fmt::format("mapping {} bytes of a file that process {} has registered", bytes,
                     peer.identity().pid);
}

}  // namespace

PeerFiles::~PeerFiles() {
  for (const auto& [place, mapping] : mappings_)
    munmap(mapping.mapped, mapping.mapped_bytes);
}

// The kernel asks for the right first and only then for the descriptor, which no process has.
bool PeerFiles::Open(int pidfd, uint64_t table_address) {
  if (CopyFdOf(pidfd, INT_MAX).valid() || errno != EBADF) return false;
  MutexLock lock(mutex_);
  pidfd_ = pidfd;
  table_address_ = table_address;
  return true;
}

char* PeerFiles::Known(uint64_t place, uint64_t bytes) const {
  auto found = mappings_.upper_bound(place);
  if (found == mappings_.begin()) return nullptr;
  --found;
  const auto& [begin, mapping] = *found;
  const uint64_t within = place - begin;
  if (within > mapping.bytes || bytes > mapping.bytes - within) return nullptr;
  return mapping.data + within;
}

absl::StatusOr<PeerFiles::Mapping> PeerFiles::Map(const NodePeer& peer,
                                                  const FileRange& range) const {
  const UniqueFd fd = CopyFdOf(pidfd_, range.fd);
  if (!fd.valid()) return SystemError(errno, MappingOf(peer, range.bytes) + ": pidfd_getfd");
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) {
    return SystemError(errno, MappingOf(peer, range.bytes) + ": fstat");
  }
  const auto file_bytes = static_cast<uint64_t>(file.st_size);
  if (range.offset > file_bytes || range.bytes > file_bytes - range.offset) {
    return MakeError(
        WEFT_CORRUPT,
        fmt::format("{}: it has {} bytes now, and the range ends at {}; a registered "
                    "file must not be made shorter",
                    MappingOf(peer, range.bytes), file_bytes, range.offset + range.bytes));
  }
  const uint64_t begin = range.offset / range.unit * range.unit;
  const uint64_t end = (range.offset + range.bytes + range.unit - 1) / range.unit * range.unit;
  Mapping made{.bytes = range.bytes, .mapped_bytes = end - begin};
  made.mapped = mmap(nullptr, made.mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                     static_cast<off_t>(begin));
  if (made.mapped == MAP_FAILED) {
    return errno == ENOMEM
               ? MakeError(WEFT_OUT_OF_MEMORY, MappingOf(peer, range.bytes) + ": no more mappings")
               : SystemError(errno, MappingOf(peer, range.bytes) + ": mmap");
  }
  KeepFromForksAndDumps(made.mapped, made.mapped_bytes);
  made.data = static_cast<char*>(made.mapped) + (range.offset - begin);
  return made;
}

// No operation uses what its owner has taken back. Places are never used again, so one that is still in the table is the
// same range.
void PeerFiles::DropRemoved(const FileRange* table) {
  std::set<uint64_t> registered;
  for (size_t i = 0; i < FileRanges::kRangesMax; ++i)
    registered.insert(table[i].place.load(std::memory_order_relaxed));
  for (auto mapping = mappings_.begin(); mapping != mappings_.end();) {
    const auto next = std::next(mapping);
    if (registered.count(mapping->first) == 0) {
      munmap(mapping->second.mapped, mapping->second.mapped_bytes);
      mappings_.erase(mapping);
    }
    mapping = next;
  }
}

absl::StatusOr<char*> PeerFiles::At(const NodePeer& peer, uint64_t place, uint64_t bytes) {
  MutexLock lock(mutex_);
  if (char* const known = Known(place, bytes)) return known;
  uint64_t table_at = 0;
  WEFT_RETURN_IF_ERROR(peer.Read(table_address_, &table_at, sizeof(table_at)));
  const std::unique_ptr<FileRange[]> table(new (std::nothrow) FileRange[FileRanges::kRangesMax]());
  if (table == nullptr) {
    return MakeError(WEFT_OUT_OF_MEMORY, MappingOf(peer, bytes) + ": out of memory");
  }
  if (table_at != 0) {
    WEFT_RETURN_IF_ERROR(
        peer.Read(table_at, table.get(), FileRanges::kRangesMax * sizeof(FileRange)));
  }
  const FileRange* const range = FileRanges::Find(table.get(), place, bytes);
  if (range == nullptr) {
    return MakeError(WEFT_CORRUPT,
                     MappingOf(peer, bytes) + ": it has not registered what it announced");
  }
  DropRemoved(table.get());
  WEFT_ASSIGN_OR_RETURN(const Mapping mapping, Map(peer, *range));
  mappings_[range->place.load(std::memory_order_relaxed)] = mapping;
  return Known(place, bytes);
}

}  // namespace weft
