#include "tests/shard/offload/memory_store.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft::test {

void MemoryStore::Disk::Complain(const std::string& what, const Transfer& transfer) {
  complaints += StrCat(transfer.writes ? "a write" : "a read", " of ", transfer.bytes, " bytes at ",
                       transfer.offset, " ", what, "\n");
}

BlockStore::Ticket MemoryStore::Start(Transfer transfer) {
  MutexLock lock(disk_->mutex);
  const auto address = reinterpret_cast<uintptr_t>(transfer.memory);
  if (transfer.offset % kAlignment != 0 || transfer.bytes % kAlignment != 0 ||
      address % kAlignment != 0 || transfer.bytes == 0)
    disk_->Complain("is not aligned", transfer);
  if (transfer.offset + transfer.bytes > disk_->content.size()) {
    disk_->Complain("is beyond the end", transfer);
    transfer.bytes = 0;
  }
  for (const auto& [ticket, other] : disk_->transfers) {
    const bool same_place = other.offset < transfer.offset + transfer.bytes &&
                            transfer.offset < other.offset + other.bytes;
    const bool same_memory = other.memory < transfer.memory + transfer.bytes &&
                             transfer.memory < other.memory + other.bytes;
    if ((same_place || same_memory) && (transfer.writes || other.writes || same_memory))
      disk_->Complain("meets another one", transfer);
  }
  transfer.fails = ++started_ == fails_at_;
  if (transfer.writes) {
    transfer.as_it_began.assign(transfer.memory, transfer.memory + transfer.bytes);
  } else {
    std::memset(transfer.memory, 0xff, transfer.bytes);
  }
  disk_->transfers.emplace(++disk_->last, std::move(transfer));
  return disk_->last;
}

BlockStore::Ticket MemoryStore::StartRead(uint64_t offset, std::byte* to, size_t bytes) {
  return Start({.offset = offset, .memory = to, .bytes = bytes});
}

BlockStore::Ticket MemoryStore::StartWrite(uint64_t offset, const std::byte* from, size_t bytes) {
  return Start({.writes = true,
                .offset = offset,
                .memory = const_cast<std::byte*>(from),  // only read
                .bytes = bytes});
}

bool MemoryStore::Done(Ticket ticket) {
  MutexLock lock(disk_->mutex);
  if (disk_->transfers.count(ticket) == 0) disk_->complaints += "a ticket that there is not\n";
  return random_() % 3 == 0;
}

absl::Status MemoryStore::Wait(Ticket ticket) {
  MutexLock lock(disk_->mutex);
  const auto found = disk_->transfers.find(ticket);
  if (found == disk_->transfers.end()) {
    disk_->complaints += "a ticket that there is not was waited for\n";
    return absl::OkStatus();
  }
  const Transfer transfer = std::move(found->second);
  disk_->transfers.erase(found);
  if (transfer.fails && failure_.ok()) failure_ = MakeError(WEFT_SYSTEM_ERROR, "a broken disk");
  WEFT_RETURN_IF_ERROR(failure_);
  std::byte* const content = disk_->content.data() + transfer.offset;
  if (!transfer.writes) {
    std::memcpy(transfer.memory, content, transfer.bytes);
    read_bytes_ += transfer.bytes;
    return absl::OkStatus();
  }
  if (std::memcmp(transfer.memory, transfer.as_it_began.data(), transfer.bytes) != 0)
    disk_->Complain("was changed while it was under way", transfer);
  std::memcpy(content, transfer.memory, transfer.bytes);
  written_bytes_ += transfer.bytes;
  return absl::OkStatus();
}

}  // namespace weft::test
