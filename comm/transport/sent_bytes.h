// What was put on a stream and is not known to have come: copies of it, or, of memory that stays as it is until then, where it lies.
//
//   SentBytes sent;
//   sent.Keep(&header, sizeof(header));
//   sent.Borrow(data, 900'000);
//   sent.Acknowledge(300'000);                                  // positions count all bytes since the beginning
//   const size_t count = sent.PiecesFrom(300'000, pieces);      // what is to be written again
//   sent.Own(data, 900'000);                                    // the memory is given back: what is borrowed of it is copied
//
// Invariants:
//   (S1) Runs lie side by side, from acknowledged() to end().
//   (S2) Copies are in a ring, in the order of their positions, but for those of Own().
//
// Thread-safety: none; its owner's. Allocates when the ring has to be larger than ever before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace weft {

class SentBytes {
 public:
  // All before this position has come.
  uint64_t acknowledged() const { return acknowledged_; }

  // Where the next byte will be.
  uint64_t end() const { return end_; }

  // How many bytes of memory copies take.
  size_t kept_bytes() const { return ring_used() + own_bytes_; }

  void Keep(const void* data, size_t bytes);

  void Borrow(const std::byte* data, size_t bytes);

  // Of a position from acknowledged() to end().
  void Acknowledge(uint64_t position);

  void Own(const std::byte* memory, size_t bytes);

  // The bytes from `position` on, as many as fit into the pieces; how many pieces these are.
  size_t PiecesFrom(uint64_t position, std::span<iovec> pieces) const;

  // Nothing is borrowed or kept any more.
  void Forget();

 private:
  struct Run {
    uint64_t begin = 0;
    size_t bytes = 0;
    const std::byte* borrowed = nullptr;  // nullptr: in the ring
    uint64_t kept = 0;                    // where there, counted as all that ever was in it
    std::unique_ptr<std::byte[]> own;
  };

  size_t ring_used() const { return static_cast<size_t>(kept_end_ - kept_begin_); }

  std::byte* RingAt(uint64_t kept) const {
    return ring_.get() + static_cast<size_t>(kept) % ring_bytes_;
  }

  // How much of it lies there in one piece, from `kept` on.
  size_t StraightFrom(uint64_t kept, size_t bytes) const;
  void MakeRoom(size_t bytes);

  uint64_t acknowledged_ = 0;
  uint64_t end_ = 0;
  std::deque<Run> runs_;
  std::unique_ptr<std::byte[]> ring_;
  size_t ring_bytes_ = 0;  // a power of two
  uint64_t kept_begin_ = 0;
  uint64_t kept_end_ = 0;
  size_t own_bytes_ = 0;
};

}  // namespace weft
