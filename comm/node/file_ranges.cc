#include "comm/node/file_ranges.h"

#include <algorithm>
#include <new>
#include <utility>

#include <unistd.h>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// Between the places of two ranges: one more than fits is never taken for the next one's beginning.
constexpr uint64_t kPlaceUnit = 4096;

}  // namespace

FileRanges::~FileRanges() {
  LetGo();
}

FileRange* FileRanges::EntryOf(uint64_t place) {
  FileRange* const end = table_.get() + kRangesMax;
  FileRange* const entry = std::find_if(table_.get(), end, [place](const FileRange& one) {
    return one.place.load(std::memory_order_relaxed) == place;
  });
  return entry == end ? nullptr : entry;
}

absl::StatusOr<uint64_t> FileRanges::Add(Range range) {
  if (table_ == nullptr) {
    table_.reset(new (std::nothrow) FileRange[kRangesMax]());
    if (table_ == nullptr) {
      return MakeError(WEFT_OUT_OF_MEMORY, "no memory for the table of registered files");
    }
    published_.store(table_.get(), std::memory_order_release);
  }
  FileRange* const entry = EntryOf(0);
  const uint64_t taken = range.bytes / kPlaceUnit * kPlaceUnit + 2 * kPlaceUnit;
  if (entry == nullptr || taken > UINT64_MAX - next_place_) {
    return MakeError(WEFT_OUT_OF_MEMORY,
                     StrCat("a process registers at most ", kRangesMax, " ranges of files"));
  }
  entry->bytes = range.bytes;
  entry->offset = range.offset;
  entry->address = range.address;
  entry->unit = range.unit;
  entry->fd = range.fd.Release();
  entry->place.store(next_place_, std::memory_order_release);
  return std::exchange(next_place_, next_place_ + taken);
}

void FileRanges::Remove(uint64_t place) {
  FileRange* const entry = EntryOf(place);
  if (entry == nullptr) return;
  entry->place.store(0, std::memory_order_release);
  close(std::exchange(entry->fd, -1));
}

const FileRange* FileRanges::Find(const FileRange* table, uint64_t place, uint64_t bytes) {
  if (table == nullptr) return nullptr;
  const FileRange* const end = table + kRangesMax;
  const FileRange* const found = std::find_if(table, end, [&](const FileRange& one) {
    const uint64_t begin = one.place.load(std::memory_order_acquire);
    if (begin == 0 || place < begin || place - begin > one.bytes) return false;
    return bytes <= one.bytes - (place - begin);
  });
  return found == end ? nullptr : found;
}

void FileRanges::LetGo() {
  for (size_t i = 0; table_ != nullptr && i < kRangesMax; ++i) {
    if (table_[i].place.exchange(0) != 0) close(table_[i].fd);
  }
}

}  // namespace weft
