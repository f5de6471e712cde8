#include "base/wait.h"

#include <gtest/gtest.h>

namespace weft::wait_test {
namespace {

// The last probe before a sleep may take what is waited for: it must not be asked again.
TEST(WaitUntil, KeepsWhatItsLastProbeTook) {
  EventCount events;
  Deadline deadline{200'000'000};
  int probes = 0;
  const auto third = [&] {
    return ++probes == 3;
  };
  EXPECT_EQ(
      WaitUntil(events, WaitPolicy{.spins = 0, .yields = 0}, deadline, third, [] { return false; }),
      WaitResult::kReady);
  EXPECT_EQ(probes, 3);
}

TEST(ProbeBriefly, EndsAsSoonAsItIsReadyOrOutOfProbes) {
  int probes = 0;
  EXPECT_TRUE(ProbeBriefly(10, [&] { return ++probes == 4; }));
  EXPECT_EQ(probes, 4);
  EXPECT_FALSE(ProbeBriefly(5, [] { return false; }));
  EXPECT_FALSE(ProbeBriefly(0, [] { return true; }));
}

}  // namespace
}  // namespace weft::wait_test
