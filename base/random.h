// Randomness as a seam: secrets and nonces come from the kernel, in a simulation from a seed.
//
// Thread-safety: SystemRandom from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace weft {

class Random {
 public:
  virtual ~Random() = default;
  // Fills `bytes` bytes with numbers that nobody can guess.
  virtual absl::Status Fill(void* data, size_t bytes) = 0;
};

class SystemRandom : public Random {
 public:
  absl::Status Fill(void* data, size_t bytes) override;
};

}  // namespace weft
