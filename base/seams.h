// What a control protocol may touch of the world, in one bundle; a simulator hands out its own: time, sockets
// (base/net.h), the randomness of secrets and nonces, and whether processes live (base/proc.h).
//
// Thread-safety: the system's from any thread. Constant after construction; everything is borrowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/net.h"
#include "base/proc.h"
#include "base/wait.h"

namespace weft {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds that only grow; on the scale of every deadline.
  virtual int64_t NowNs() = 0;

  // The moment by this clock that was `ns` of the machine's time ago; a clock may have stood still since.
  virtual int64_t AgoNs(int64_t ns) { return NowNs() - ns; }
};

class SystemClock : public Clock {
 public:
  int64_t NowNs() override { return MonotonicNs(); }
};

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

struct Seams {
  Clock* clock = nullptr;
  Net* net = nullptr;
  Random* random = nullptr;
  Proc* proc = nullptr;
};

// The real ones; they live until the process ends.
const Seams& SystemSeams();

}  // namespace weft
