// Time of the machine against that of a process that does not always run.
#include "comm/agent/awake_clock.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace weft::test::awake_clock_test {
namespace {

constexpr int64_t kToleranceNs = 10;

class SetClock : public Clock {
 public:
  int64_t NowNs() override { return now_ns; }

  int64_t now_ns = 1000;
};

// A step that comes at once, and the next one is due after `pause_ns`.
void Step(AwakeClock* clock, int64_t pause_ns) {
  clock->BeginStep();
  clock->EndStep(clock->NowNs() + pause_ns);
}

TEST(AwakeClock, StandsStillWhileItsProcessDoes) {
  SetClock machine;
  AwakeClock clock(machine, kToleranceNs);
  Step(&clock, 100);
  machine.now_ns = 1109;  // a little late
  Step(&clock, 100);
  EXPECT_EQ(clock.NowNs(), 1109);
  machine.now_ns = 1709;  // 500 too late
  Step(&clock, 100);
  EXPECT_EQ(clock.NowNs(), 1209);
  EXPECT_EQ(clock.ToClock(1209), 1709);
  EXPECT_EQ(clock.FromClock(1709), 1209);
}

TEST(AwakeClock, WhatAKernelSaysOfThePastIsWhenItWasByThisClock) {
  SetClock machine;
  AwakeClock clock(machine, kToleranceNs);
  Step(&clock, 100);
  machine.now_ns = 1600;  // from 1100 on it did not run
  Step(&clock, 100);
  machine.now_ns = 1650;
  EXPECT_EQ(clock.AgoNs(0), 1150);
  EXPECT_EQ(clock.AgoNs(50), 1100);
  EXPECT_EQ(clock.AgoNs(300), 1100);  // while it stood
  EXPECT_EQ(clock.AgoNs(550), 1100);
  EXPECT_EQ(clock.AgoNs(600), 1050);  // just before: 100 ago by this clock
  machine.now_ns = 2000;              // from 1700 on
  Step(&clock, 100);
  EXPECT_EQ(clock.AgoNs(0), 1200);
  EXPECT_EQ(clock.AgoNs(350), 1150);
  EXPECT_EQ(clock.AgoNs(950), 1050);
}

}  // namespace
}  // namespace weft::test::awake_clock_test
