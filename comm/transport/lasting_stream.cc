#include "comm/transport/lasting_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/status.h"

namespace weft {
namespace {

constexpr uint32_t kHelloMagic = 0x77666c73;  // "wfls"
constexpr uint32_t kHelloVersion = 1;
// For one call that writes again.
constexpr size_t kPiecesMax = 16;

}  // namespace

void LastingStream::Attach(std::unique_ptr<ByteStream> carrier) {
  carrier_ = std::move(carrier);
  settled_ = !lasting();
  if (settled_) return;
  said_ = {.magic = kHelloMagic,
           .version = kHelloVersion,
           .id = id_,
           .other_id = other_id_,
           .received = received_};
  hello_left_ = sizeof(said_);
  hello_come_ = 0;
  again_ = again_end_ = sent_.end();
}

void LastingStream::End() {
  carrier_.reset();
  settled_ = false;
  sent_.Forget();
}

IoResult LastingStream::Settle(absl::Status* wrong) {
  const IoResult said = SayHello();
  if (hello_come_ < sizeof(heard_)) {
    const IoResult heard = HearHello();
    if (heard.state != IoState::kDone) return heard;
    *wrong = Judge();
    if (!wrong->ok()) return {.state = IoState::kFailed, .error_number = EPROTO};
  }
  if (said.state != IoState::kDone) return said;
  const IoResult written = WriteAgain();
  settled_ = written.state == IoState::kDone;
  return written;
}

IoResult LastingStream::SayHello() {
  while (hello_left_ > 0) {
    const iovec piece = {reinterpret_cast<char*>(&said_) + (sizeof(said_) - hello_left_),
                         hello_left_};
    const IoResult written = carrier_->Write(std::span(&piece, 1));
    if (written.state != IoState::kDone) return written;
    hello_left_ -= written.bytes;
  }
  return {.state = IoState::kDone};
}

IoResult LastingStream::HearHello() {
  while (hello_come_ < sizeof(heard_)) {
    const iovec piece = {reinterpret_cast<char*>(&heard_) + hello_come_,
                         sizeof(heard_) - hello_come_};
    const IoResult read = carrier_->Read(std::span(&piece, 1));
    if (read.state != IoState::kDone) return read;
    hello_come_ += read.bytes;
  }
  return {.state = IoState::kDone};
}

absl::Status LastingStream::Judge() {
  if (heard_.magic != kHelloMagic || heard_.version != kHelloVersion) {
    return MakeError(WEFT_CORRUPT, "it speaks another language, or version");
  }
  if (heard_.id == 0 || (other_id_ != 0 && heard_.id != other_id_) ||
      (heard_.other_id != 0 && heard_.other_id != id_)) {
    return MakeError(WEFT_CORRUPT, "it is not the one that it was");
  }
  // What was written on this connection already, if it is the first one, cannot have come when this was said.
  if (heard_.received < sent_.acknowledged() || heard_.received > again_end_) {
    return MakeError(WEFT_CORRUPT, "it has got other bytes than were sent");
  }
  other_id_ = heard_.id;
  again_ = heard_.received;
  sent_.Acknowledge(again_);
  return absl::OkStatus();
}

IoResult LastingStream::WriteAgain() {
  // What has come meanwhile is kept no more.
  again_ = std::max(again_, sent_.acknowledged());
  while (again_ < again_end_) {
    std::array<iovec, kPiecesMax> pieces;
    size_t count = sent_.PiecesFrom(again_, pieces);
    const IoResult written = carrier_->Write(std::span(pieces).first(count));
    if (written.state != IoState::kDone) return written;
    again_ += written.bytes;
  }
  return {.state = IoState::kDone};
}

IoResult LastingStream::Write(const OutgoingBytes& bytes) {
  if (!MayWrite()) return {};
  iovec pieces[2];
  size_t count = 0;
  if (!bytes.frames.empty())
    pieces[count++] = {const_cast<char*>(bytes.frames.data()), bytes.frames.size()};
  if (!bytes.data.empty())
    pieces[count++] = {const_cast<std::byte*>(bytes.data.data()), bytes.data.size()};
  const IoResult written = carrier_->Write(std::span(pieces, count));
  if (written.state != IoState::kDone || !lasting()) return written;
  // Kept after it is on its way, so that this costs the other side no time.
  const size_t of_frames = std::min(written.bytes, bytes.frames.size());
  sent_.Keep(bytes.frames.data(), of_frames);
  if (bytes.borrows) {
    sent_.Borrow(bytes.data.data(), written.bytes - of_frames);
  } else {
    sent_.Keep(bytes.data.data(), written.bytes - of_frames);
  }
  return written;
}

IoResult LastingStream::Read(std::span<const iovec> pieces) {
  if (lasting() && hello_come_ < sizeof(heard_)) return {};
  const IoResult read = carrier_->Read(pieces);
  if (read.state == IoState::kDone) received_ += read.bytes;
  return read;
}

bool LastingStream::WantsToWrite() const {
  return attached() && !settled_ &&
         (hello_left_ > 0 || (hello_come_ == sizeof(heard_) && again_ < again_end_));
}

bool LastingStream::Flushed() const {
  if (!attached()) return sent_.acknowledged() == sent_.end();
  return (settled_ || sent_.end() == 0) && carrier_->Flushed();
}

bool LastingStream::Acknowledge(uint64_t position) {
  if (position > sent_.end()) return false;
  if (position > sent_.acknowledged()) sent_.Acknowledge(position);
  return true;
}

}  // namespace weft
