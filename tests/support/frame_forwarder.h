// A cable that loses frames, doubles them, and lets some come late: what netem does, where the kernel has none. It moves frames between two
// interfaces of this process's network, by packet sockets.
//
//   TurnOffOffloads("eth0");                                         // at both far ends: what travels are frames, with sums of their own
//   ForwardFrames("port1i0", "wire1", {.loss = 0.01, .seed = 7}, &counts);      // until the process is killed
//
// Which frames are lost is a matter of the seed and of how many came before, in both directions; what is sent when is not, so runs differ.
//
// Thread-safety: one thread. `counts` may be in memory that other processes read.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace weft::test {

// Probabilities, of each frame.
struct FrameFaults {
  double loss = 0;
  double doubled = 0;
  double late = 0;  // by up to late_ms: others overtake it
  int late_ms = 5;
  uint64_t seed = 1;
};

// Beside what it has done, what it is to do from now on.
struct FrameCounts {
  std::atomic<uint64_t> longest{
      0};  // longer frames, in bytes, are lost, as by a hop with a smaller MTU; 0: none is too long
  std::atomic<uint64_t> forwarded{0};
  std::atomic<uint64_t> lost{0};
  std::atomic<uint64_t> doubled{0};
  std::atomic<uint64_t> late{0};
};

// Returns when something is wrong, and else not.
absl::Status ForwardFrames(const std::string& first, const std::string& second,
                           const FrameFaults& faults, FrameCounts* counts);

// What is sent on the interface of this process's network is cut into frames and has its check sums before it leaves.
absl::Status TurnOffOffloads(const std::string& interface);

}  // namespace weft::test
