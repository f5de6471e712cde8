// Carries a schedule out on numbers, with everything that the rules leave open decided by chance: when ops start, when they read and write,
// when messages arrive, whether sends wait for their receives. Slow and plain, and it shares no code with the verifier.
//
//   EXPECT_EQ("", ExecuteByChance(schedule, {.seed = 7, .in_place = true}));
//
// Elements are float32 and accumulators float64 for sums in order, so that another order and another rounding show; goals free of order get
// whole numbers. What was never written is NaN, and so is, for a while, what is being written.
// Thread-safety: pure.
#pragma once

#include <cstdint>
#include <string>

#include "comm/schedule/schedule.h"

namespace weft::test {

struct ChanceOptions {
  uint64_t seed = 0;
  bool in_place = false;
  // No more ops under way than the schedule's window; else as many as may start.
  bool window_only = false;
  bool rendezvous = false;
};

// "", or what is wrong: ops that never end, or a unit that is not what the goal says. The schedule has to be well formed, but need not be
// right.
std::string ExecuteByChance(const CollectiveSchedule& schedule, const ChanceOptions& options);

}  // namespace weft::test
