// Bytes from one rank to another one of its island: a ring in memory that both have mapped, and its two ends.
//
//   RingWriter out(ring);                             // one process
//   if (out.Write(pieces).state == IoState::kDone) ...
//   RingReader in(ring);                              // the other one
//   if (in.Read(pieces).state == IoState::kDone) ...
//
// Bytes go straight between the ring and the memory of the pieces. Of many, each stride is shown to the other side when it is there, so
// that both work at the same time. Invariants:
//   (R1) `written` and `starved` are the writer's, `taken` the reader's; the counts never fall, and taken <= written <= taken + bytes.
//   (R2) Byte n lies at n modulo the ring's size; it is written only when n < taken + bytes, and read only when n < written.
// A count of the other side's that goes against them ends the stream with EBADMSG: what it says is checked, not believed.
//
// Counts that end a call, and what waiters say, are seq_cst: see doorbell.h.
// Thread-safety: none; one writer and one reader. The memory is borrowed; a head that is all zero is an empty ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "base/net.h"

namespace weft {

struct RingHead {
  alignas(128) std::atomic<uint64_t> written;
  std::atomic<uint32_t> starved;  // 1: the writer may sleep until something is taken
  alignas(128) std::atomic<uint64_t> taken;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct SharedMemoryRing {
  RingHead* head = nullptr;
  std::byte* bytes = nullptr;
  size_t size = 0;  // a power of two
};

class RingWriter {
 public:
  explicit RingWriter(const SharedMemoryRing& ring) : ring_(ring) {}

  IoResult Write(std::span<const iovec> pieces);

  bool HasRoom() const {
    return ring_.head->taken.load(std::memory_order_seq_cst) + ring_.size != written_;
  }

  // That it will sleep until there is room. Taken back by the next Write that finds some.
  void SayStarved();

 private:
  size_t RoomFor(size_t bytes);

  const SharedMemoryRing ring_;
  uint64_t written_ = 0;
  uint64_t taken_ = 0;  // as last seen
  bool starved_ = false;
};

class RingReader {
 public:
  explicit RingReader(const SharedMemoryRing& ring) : ring_(ring) {}

  IoResult Read(std::span<const iovec> pieces);

  bool HasBytes() const { return ring_.head->written.load(std::memory_order_seq_cst) != taken_; }

  // The writer sleeps, or is about to, and so much of the ring is free.
  bool WriterStarves(size_t free_bytes) const {
    return ring_.head->starved.load(std::memory_order_seq_cst) != 0 &&
           ring_.head->written.load(std::memory_order_relaxed) - taken_ <= ring_.size - free_bytes;
  }

  size_t size() const { return ring_.size; }

 private:
  size_t BytesFor(size_t bytes);

  const SharedMemoryRing ring_;
  uint64_t taken_ = 0;
  uint64_t written_ = 0;  // as last seen
};

}  // namespace weft
