#include "comm/transport/part_writer.h"

#include <algorithm>

namespace weft {

void PartWriter::Append(std::string* frames, LinkFrame frame) {
  frame.received = told_ = stream_->received();
  tell_ = false;
  tell_next_ = false;
  untold_ = 0;
  frames->append(reinterpret_cast<const char*>(&frame), sizeof(frame));
}

void PartWriter::TakeUp() {
  front_.clear();
  front_done_ = 0;
  front_.swap(control_);
}

void PartWriter::SayFirst(LinkFrame frame) {
  std::string first;
  Append(&first, frame);
  front_.insert(0, first);
}

void PartWriter::BeginPart(const LinkFrame& header, Transfer* send, bool borrows) {
  SayNow(header);
  part_ = true;
  placed_ = header.type == LinkFrameType::kPlaced;
  data_ = send->memory + header.offset;
  borrows_ = borrows;
  left_ = header.bytes;
  send_ = send;
}

IoResult PartWriter::Write() {
  const size_t front_left = front_.size() - front_done_;
  const bool beside = part_ && placed_;
  if (front_left == 0 && beside) {
    const IoResult result = stream_->SendPart(data_, left_);
    begun_ = result.state == IoState::kWouldBlock;
    if (result.state == IoState::kDone) left_ = 0;
    return result;
  }
  if (front_left + left_ == 0) return {.state = IoState::kDone};
  const IoResult result = stream_->Write({.frames = {front_.data() + front_done_, front_left},
                                          .data = {data_, beside ? 0 : left_},
                                          .borrows = borrows_});
  if (result.state != IoState::kDone) return result;
  const size_t of_front = std::min(result.bytes, front_left);
  front_done_ += of_front;
  const size_t of_data = result.bytes - of_front;
  data_ += of_data;
  left_ -= of_data;
  return result;
}

Transfer* PartWriter::EndPart() {
  part_ = false;
  begun_ = false;
  rest_.clear();
  return std::exchange(send_, nullptr);
}

IoResult PartWriter::TakeBack() {
  send_ = nullptr;
  // Also where the stream has broken: it goes on with this when there is another one.
  if (!begun_) {
    rest_.assign(reinterpret_cast<const char*>(data_), left_);
    data_ = reinterpret_cast<const std::byte*>(rest_.data());
    borrows_ = false;
    return {.state = IoState::kDone};
  }
  // What was under way beside a stream that has broken has ended with it.
  if (!stream_->attached()) return {.state = IoState::kDone};
  const IoResult result = stream_->TakeBackSend();
  if (result.state == IoState::kDone) left_ = 0;
  return result;
}

void PartWriter::Forget() {
  control_.clear();
  TakeUp();
  left_ = 0;
  (void)EndPart();
  tell_ = false;
  tell_next_ = false;
}

void PartWriter::CountKept(size_t bytes) {
  untold_ += bytes;
  if (untold_ >= kUntoldBytes) tell_ = true;
}

}  // namespace weft
