// Two rings as a stream of bytes between two ranks of an island: who may sleep is woken when there is something for it, or room.
//
//   auto stream = std::make_unique<RingStream>(out, in, &bell, /*place=*/2);
//   if (!stream->Ready(/*writes=*/true)) ...   // nothing to be read, and no room
//   link.Attach(std::move(stream));
//
// Thread-safety: none; the transport's lock. The bell and the rings' memory are borrowed.
#pragma once

#include <span>

#include "comm/transport/byte_stream.h"
#include "comm/transport/doorbell.h"
#include "comm/transport/shared_memory_ring.h"

namespace weft {

class RingStream : public ByteStream {
 public:
  // `place`: the other rank's, on the island.
  RingStream(const SharedMemoryRing& out, const SharedMemoryRing& in, Doorbell* bell, int place)
      : out_(out), in_(in), bell_(bell), place_(place) {}

  // Where the other side has left, nothing is written, and the link learns it by reading what that had written before.
  IoResult Write(std::span<const iovec> pieces) override {
    if (bell_->Gone(place_)) return {};
    const IoResult result = out_.Write(pieces);
    if (result.state == IoState::kDone) bell_->Ring(place_);
    return result;
  }

  IoResult Read(std::span<const iovec> pieces) override {
    IoResult result = in_.Read(pieces);
    if (result.state == IoState::kWouldBlock && bell_->Gone(place_)) {
      result = in_.Read(pieces);  // it has left since
      if (result.state == IoState::kWouldBlock) return {.state = IoState::kClosed};
    }
    // Not for every bit of room: to be woken costs more than to copy many of them.
    if (result.state == IoState::kDone && in_.WriterStarves(in_.size() / 2)) bell_->Ring(place_);
    return result;
  }

  // This side may read no more for a while: the other one is told of any room.
  void TellOfRoom() {
    if (in_.WriterStarves(1)) bell_->Ring(place_);
  }

  // It stays in the ring when this process ends.
  bool Flushed() const override { return true; }

  // This side will sleep until there is room.
  void SayStarved() { out_.SayStarved(); }

  // A read would say something; or else, if this side `writes`, a write.
  bool Ready(bool writes) const {
    return in_.HasBytes() || bell_->Gone(place_) || (writes && out_.HasRoom());
  }

 private:
  RingWriter out_;
  RingReader in_;
  Doorbell* const bell_;
  const int place_;
};

}  // namespace weft
