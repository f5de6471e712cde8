#include "comm/transport/shared_memory_ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

// What one side shows to the other one at a time: of a call that moves more, the rest goes on meanwhile. The other side's count, whose line
// it has to be asked for, is read when less than that is left of what was seen.
constexpr size_t kStrideBytes = 16 << 10;

constexpr size_t kSpoilt = SIZE_MAX;

// The next bytes that lie side by side in the ring, and belong to one stride.
size_t RunOf(size_t bytes, uint64_t count, size_t ring_bytes) {
  return std::min({bytes, ring_bytes - (count & (ring_bytes - 1)),
                   kStrideBytes - static_cast<size_t>(count % kStrideBytes)});
}

// Walks through the pieces: `room(bytes)` says how many of so many may be moved now, `move(memory, bytes)` moves one run.
template <typename Room, typename Move>
IoResult MovePieces(std::span<const iovec> pieces, const Room& room, const Move& move) {
  size_t moved = 0;
  for (const iovec& piece : pieces) {
    auto* memory = static_cast<std::byte*>(piece.iov_base);
    for (size_t left = piece.iov_len; left > 0;) {
      const size_t now = room(left);
      if (now == kSpoilt) return {.state = IoState::kFailed, .error_number = EBADMSG};
      if (now == 0) {
        return moved > 0 ? IoResult{.state = IoState::kDone, .bytes = moved} : IoResult{};
      }
      const size_t run = move(memory, now);
      memory += run;
      left -= run;
      moved += run;
    }
  }
  return {.state = IoState::kDone, .bytes = moved};
}

}  // namespace

size_t RingWriter::RoomFor(size_t bytes) {
  if (ring_.size - (written_ - taken_) < std::min(bytes, kStrideBytes)) {
    const uint64_t taken = ring_.head->taken.load(std::memory_order_acquire);
    if (taken < taken_ || taken > written_) return kSpoilt;
    taken_ = taken;
  }
  return std::min(bytes, ring_.size - static_cast<size_t>(written_ - taken_));
}

IoResult RingWriter::Write(std::span<const iovec> pieces) {
  const IoResult result = MovePieces(
      pieces, [this](size_t bytes) { return RoomFor(bytes); },
      [this](const std::byte* memory, size_t bytes) {
        const size_t run = RunOf(bytes, written_, ring_.size);
        std::memcpy(ring_.bytes + (written_ & (ring_.size - 1)), memory, run);
        written_ += run;
        if (written_ % kStrideBytes == 0) {
          ring_.head->written.store(written_, std::memory_order_release);
        }
        return run;
      });
  if (result.state != IoState::kDone) return result;
  ring_.head->written.store(written_, std::memory_order_seq_cst);
  if (starved_) {
    starved_ = false;
    ring_.head->starved.store(0, std::memory_order_relaxed);
  }
  return result;
}

void RingWriter::SayStarved() {
  starved_ = true;
  ring_.head->starved.store(1, std::memory_order_seq_cst);
}

size_t RingReader::BytesFor(size_t bytes) {
  if (written_ - taken_ < std::min(bytes, kStrideBytes)) {
    const uint64_t written = ring_.head->written.load(std::memory_order_acquire);
    if (written < written_ || written - taken_ > ring_.size) return kSpoilt;
    written_ = written;
  }
  return std::min(bytes, static_cast<size_t>(written_ - taken_));
}

IoResult RingReader::Read(std::span<const iovec> pieces) {
  const IoResult result = MovePieces(
      pieces, [this](size_t bytes) { return BytesFor(bytes); },
      [this](std::byte* memory, size_t bytes) {
        const size_t run = RunOf(bytes, taken_, ring_.size);
        std::memcpy(memory, ring_.bytes + (taken_ & (ring_.size - 1)), run);
        taken_ += run;
        if (taken_ % kStrideBytes == 0) {
          ring_.head->taken.store(taken_, std::memory_order_release);
        }
        return run;
      });
  if (result.state == IoState::kDone) {
    ring_.head->taken.store(taken_, std::memory_order_seq_cst);
  }
  return result;
}

}  // namespace weft
