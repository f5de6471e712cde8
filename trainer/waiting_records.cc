#include "trainer/waiting_records.h"

#include <algorithm>
#include <string_view>

#include "trainer/run_files.h"

namespace weft::trainer {

void WaitingRecords::Add(const std::string& record) {
  if (bytes_.size() - begin_ >= kBytesMax) {
    lost_++;
    return;
  }
  bytes_ += record;
  added_ += record.size();
  ends_.push_back(added_);
}

int WaitingRecords::WriteTo(int fd) {
  std::string_view left = std::string_view(bytes_).substr(begin_);
  const int error = WriteAll(fd, left);
  begin_ = bytes_.size() - left.size();
  // Moved seldom: a slow reader takes a few of many bytes each time.
  if (begin_ >= bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return error;
}

void WaitingRecords::Confirm(size_t unread) {
  const uint64_t there = added_ - (bytes_.size() - begin_) - unread;
  ends_.erase(ends_.begin(), std::ranges::upper_bound(ends_, there));
}

void WaitingRecords::GiveUp() {
  lost_ = lacking();
  ends_.clear();
  added_ -= bytes_.size() - begin_;
  bytes_ = std::string();
  begin_ = 0;
}

}  // namespace weft::trainer
