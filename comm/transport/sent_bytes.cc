#include "comm/transport/sent_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

namespace weft {
namespace {

constexpr size_t kCopiesBytesMin = 4 << 10;

}  // namespace

size_t SentBytes::StraightFrom(uint64_t kept, size_t bytes) const {
  return std::min(bytes, ring_bytes_ - static_cast<size_t>(kept) % ring_bytes_);
}

void SentBytes::MakeRoom(size_t bytes) {
  const size_t wanted = ring_used() + bytes;
  if (wanted <= ring_bytes_) return;
  const size_t larger_bytes = std::bit_ceil(std::max(wanted, kCopiesBytesMin));
  std::unique_ptr<std::byte[]> larger(new std::byte[larger_bytes]);
  for (uint64_t at = kept_begin_; at < kept_end_;) {
    const size_t there = StraightFrom(at, static_cast<size_t>(kept_end_ - at));
    const size_t offset = static_cast<size_t>(at) % larger_bytes;
    const size_t count = std::min(there, larger_bytes - offset);
    std::memcpy(larger.get() + offset, RingAt(at), count);
    at += count;
  }
  ring_ = std::move(larger);
  ring_bytes_ = larger_bytes;
}

void SentBytes::Keep(const void* data, size_t bytes) {
  if (bytes == 0) return;
  MakeRoom(bytes);
  const auto* const from = static_cast<const std::byte*>(data);
  const size_t straight = StraightFrom(kept_end_, bytes);
  std::memcpy(RingAt(kept_end_), from, straight);
  if (straight < bytes) std::memcpy(ring_.get(), from + straight, bytes - straight);
  if (!runs_.empty() && runs_.back().borrowed == nullptr) {
    runs_.back().bytes += bytes;
  } else {
    runs_.push_back({.begin = end_, .bytes = bytes, .kept = kept_end_});
  }
  kept_end_ += bytes;
  end_ += bytes;
}

void SentBytes::Borrow(const std::byte* data, size_t bytes) {
  if (bytes == 0) return;
  runs_.push_back({.begin = end_, .bytes = bytes, .borrowed = data});
  end_ += bytes;
}

void SentBytes::Acknowledge(uint64_t position) {
  acknowledged_ = position;
  while (!runs_.empty()) {
    Run& run = runs_.front();
    const auto come = static_cast<size_t>(
        std::min<uint64_t>(run.bytes, std::max(position, run.begin) - run.begin));
    run.begin += come;
    run.bytes -= come;
    if (run.borrowed != nullptr) {
      run.borrowed += come;
      if (run.own != nullptr) own_bytes_ -= come;
    } else {
      run.kept += come;
      kept_begin_ += come;
    }
    // An empty one in the ring is the next one's beginning.
    if (run.bytes > 0 || (run.borrowed == nullptr && runs_.size() == 1)) return;
    runs_.pop_front();
  }
}

void SentBytes::Own(const std::byte* memory, size_t bytes) {
  const std::less<const std::byte*> before;
  for (Run& run : runs_) {
    if (run.borrowed == nullptr || run.own != nullptr || before(run.borrowed, memory) ||
        !before(run.borrowed, memory + bytes))
      continue;
    run.own.reset(new std::byte[run.bytes]);
    std::memcpy(run.own.get(), run.borrowed, run.bytes);
    run.borrowed = run.own.get();
    own_bytes_ += run.bytes;
  }
}

size_t SentBytes::PiecesFrom(uint64_t position, std::span<iovec> pieces) const {
  size_t count = 0;
  for (const Run& run : runs_) {
    if (run.begin + run.bytes <= position) continue;
    const size_t skipped = static_cast<size_t>(std::max(position, run.begin) - run.begin);
    size_t left = run.bytes - skipped;
    if (run.borrowed != nullptr) {
      if (count == pieces.size()) return count;
      pieces[count++] = {const_cast<std::byte*>(run.borrowed) + skipped, left};
      continue;
    }
    for (uint64_t at = run.kept + skipped; left > 0;) {
      if (count == pieces.size()) return count;
      const size_t straight = StraightFrom(at, left);
      pieces[count++] = {RingAt(at), straight};
      at += straight;
      left -= straight;
    }
  }
  return count;
}

void SentBytes::Forget() {
  runs_.clear();
  kept_begin_ = kept_end_;
  own_bytes_ = 0;
}

}  // namespace weft
