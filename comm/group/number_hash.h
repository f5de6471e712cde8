// A hash of a few numbers that all ranks compute alike, to tell whether they mean the same: a multiplication and a shift per
// number, a bijection of the state each (the finaliser of MurmurHash3 by Austin Appleby).
//
//   NumberHash hash;
//   for (size_t count : counts) hash.Add(count);
//   signature = hash.Get32();
//
// Thread-safety: none, a value.
#pragma once

#include <cstdint>

namespace weft {

class NumberHash {
 public:
  void Add(uint64_t number) {
    state_ = (state_ ^ number) * 0xff51afd7ed558ccdULL;
    state_ ^= state_ >> 33;
  }

  uint64_t Get() const { return state_; }

  uint32_t Get32() const { return static_cast<uint32_t>(state_ ^ state_ >> 32); }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

}  // namespace weft
