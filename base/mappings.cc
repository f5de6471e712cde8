#include "base/mappings.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

struct Mapping {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string_view permissions;  // "rw-p"
  uint64_t offset = 0;           // in its file
  dev_t device = 0;              // of its file
  uint64_t inode = 0;
  bool stack = false;
};

// Major and minor number of a device, "00:01".
std::optional<dev_t> ParseDevice(std::string_view text) {
  const size_t colon = text.find(':');
  uint32_t major_number = 0;
  uint32_t minor_number = 0;
  if (colon == std::string_view::npos ||
      !absl::SimpleHexAtoi(ToAbsl(text.substr(0, colon)), &major_number) ||
      !absl::SimpleHexAtoi(ToAbsl(text.substr(colon + 1)), &minor_number)) {
    return std::nullopt;
  }
  return makedev(major_number, minor_number);
}

// "7f12a000-7f12b000 rw-p 00000000 00:00 0    [heap]"
std::optional<Mapping> ParseMapping(std::string_view line) {
  const size_t dash = line.find('-');
  const size_t space = line.find(' ');
  if (dash == std::string_view::npos || space == std::string_view::npos || dash > space ||
      line.size() < space + 5) {
    return std::nullopt;
  }
  Mapping mapping;
  uint64_t begin = 0;
  uint64_t end = 0;
  if (!absl::SimpleHexAtoi(ToAbsl(line.substr(0, dash)), &begin) ||
      !absl::SimpleHexAtoi(ToAbsl(line.substr(dash + 1, space - dash - 1)), &end)) {
    return std::nullopt;
  }
  mapping.begin = begin;
  mapping.end = end;
  mapping.permissions = line.substr(space + 1, 4);
  const std::vector<absl::string_view> fields =
      absl::StrSplit(ToAbsl(line), absl::MaxSplits(' ', 5));
  if (fields.size() < 5 || !absl::SimpleHexAtoi(fields[2], &mapping.offset) ||
      !absl::SimpleAtoi(fields[4], &mapping.inode)) {
    return std::nullopt;
  }
  const std::optional<dev_t> device = ParseDevice(FromAbsl(fields[3]));
  if (!device) return std::nullopt;
  mapping.device = *device;
  mapping.stack = absl::EndsWith(ToAbsl(line), "[stack]");
  return mapping;
}

absl::StatusOr<std::string> ReadOwnMaps() {
  const UniqueFd fd = OpenFile("/proc/self/maps", O_RDONLY);
  if (!fd.valid()) return SystemError(errno, "reading /proc/self/maps");
  return ReadFile(fd.get(), SIZE_MAX, "reading /proc/self/maps");
}

absl::Status Refuse(uintptr_t address, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, fmt::format("the memory at {:#x} {}", address, what));
}

bool TouchesOwnStack(uintptr_t begin, size_t bytes) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* stack = nullptr;
  size_t stack_bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &stack, &stack_bytes) == 0;
  pthread_attr_destroy(&attributes);
  const auto stack_begin = reinterpret_cast<uintptr_t>(stack);
  return known && begin < stack_begin + stack_bytes && stack_begin < begin + bytes;
}

absl::Status CheckMapping(const Mapping& mapping, uintptr_t address) {
  const std::string_view permissions = mapping.permissions;
  if (mapping.stack) return Refuse(address, "is a stack");
  if (permissions == "rw-p") return absl::OkStatus();
  if (permissions[0] != 'r' || permissions[1] != 'w') {
    return Refuse(address, StrCat("is not readable and writable (", permissions, ")"));
  }
  if (permissions[3] != 'p') return Refuse(address, StrCat("is shared (", permissions, ")"));
  return Refuse(address, StrCat("is executable (", permissions, ")"));
}

// Asks `check(mapping, address)` of each mapping, from the first address in it on.
template <typename Check>
absl::Status CheckAll(std::string_view maps, const void* memory, size_t bytes, const Check& check) {
  auto next = reinterpret_cast<uintptr_t>(memory);  // all before it is fine
  const uintptr_t end = next + bytes;
  while (!maps.empty() && next < end) {
    const size_t length = std::min(maps.find('\n'), maps.size());
    const std::optional<Mapping> mapping = ParseMapping(maps.substr(0, length));
    maps.remove_prefix(std::min(length + 1, maps.size()));
    if (!mapping || mapping->end <= next) continue;
    if (mapping->begin > next) break;
    WEFT_RETURN_IF_ERROR(check(*mapping, next));
    next = mapping->end;
  }
  return next < end ? Refuse(next, "is not mapped") : absl::OkStatus();
}

}  // namespace

absl::Status CheckOrdinaryMemory(std::string_view maps, const void* memory, size_t bytes) {
  return CheckAll(maps, memory, bytes, CheckMapping);
}

absl::Status CheckMappingOfFile(std::string_view maps, const void* memory, size_t bytes,
                                const MappedFile& file) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const auto check = [&](const Mapping& mapping, uintptr_t address) {
    if (!absl::StartsWith(ToAbsl(mapping.permissions), "rw") || mapping.permissions[3] != 's') {
      return Refuse(address, StrCat("is not a shared, readable and writable mapping (",
                                    mapping.permissions, ")"));
    }
    if (mapping.device != file.device || mapping.inode != file.inode) {
      return Refuse(address, "is mapped from another file");
    }
    const uint64_t found = mapping.offset + (address - mapping.begin);
    const uint64_t expected = file.offset + (address - begin);
    if (found == expected) return absl::OkStatus();
    return Refuse(address,
                  StrCat("is byte ", found, " of the file, not ", expected, " as was said"));
  };
  return CheckAll(maps, memory, bytes, check);
}

absl::Status CheckOrdinaryMemory(const void* memory, size_t bytes) {
  // The stacks of other threads than the first have no name in the list; the caller's own is known.
  if (TouchesOwnStack(reinterpret_cast<uintptr_t>(memory), bytes)) {
    return Refuse(reinterpret_cast<uintptr_t>(memory), "is a stack");
  }
  WEFT_ASSIGN_OR_RETURN(const std::string maps, ReadOwnMaps());
  return CheckOrdinaryMemory(maps, memory, bytes);
}

absl::Status CheckMappingOfFile(const void* memory, size_t bytes, int fd, uint64_t offset) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return SystemError(errno, "fstat");
  WEFT_ASSIGN_OR_RETURN(const std::string maps, ReadOwnMaps());
  return CheckMappingOfFile(maps, memory, bytes, {file.st_dev, file.st_ino, offset});
}

}  // namespace weft
