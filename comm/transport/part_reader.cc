#include "comm/transport/part_reader.h"

#include <algorithm>
#include <span>

#include <sys/uio.h>

namespace weft {
namespace {

constexpr size_t kSinkBytes = 64 << 10;

}  // namespace

IoResult PartReader::Read() {
  if (part_ && placed_) return ReadPlaced();
  iovec pieces[2];
  size_t count = 0;
  size_t data_room = 0;
  if (part_ && left_ > 0) {
    if (data_ == nullptr) sink_.resize(kSinkBytes);
    data_room = data_ != nullptr ? left_ : std::min(left_, kSinkBytes);
    pieces[count++] = {data_ != nullptr ? data_ : sink_.data(), data_room};
  }
  if (data_room == left_) {
    pieces[count++] = {reinterpret_cast<char*>(&next_) + next_done_, sizeof(next_) - next_done_};
  }
  const IoResult result = stream_->Read(std::span(pieces, count));
  if (result.state != IoState::kDone) return result;
  const size_t of_data = std::min(result.bytes, data_room);
  if (part_) {
    if (data_ != nullptr) data_ += of_data;
    left_ -= of_data;
  }
  next_done_ += result.bytes - of_data;
  return result;
}

IoResult PartReader::ReadPlaced() {
  const IoResult result = stream_->ReceivePart(data_, left_);
  begun_ = result.state == IoState::kWouldBlock;
  if (result.state == IoState::kDone) left_ = 0;
  return result;
}

bool PartReader::TakeHeader() {
  if (next_done_ < sizeof(next_)) return false;
  header_ = next_;
  next_done_ = 0;
  return true;
}

void PartReader::BeginPart() {
  part_ = true;
  placed_ = header_.type == LinkFrameType::kPlaced;
  begun_ = false;
  left_ = header_.bytes;
  Into(nullptr);
}

Transfer* PartReader::EndPart() {
  part_ = false;
  begun_ = false;
  data_ = nullptr;
  return std::exchange(receive_, nullptr);
}

IoResult PartReader::TakeBack() {
  Into(nullptr);
  if (!begun_ || !stream_->attached()) return {.state = IoState::kDone};
  IoResult result = stream_->TakeBackReceive();
  if (result.state == IoState::kWouldBlock) {
    begun_ = false;  // what comes is thrown away
    result.state = IoState::kDone;
  } else if (result.state == IoState::kDone) {
    left_ = 0;
  }
  return result;
}

}  // namespace weft
