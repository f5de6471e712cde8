#include "comm/agent/wait_cycle.h"

#include <cstring>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "waits.h"

namespace weft::test::wait_cycle_test {
namespace {

// The processes of the shortest cycle through the first of those that wait.
std::vector<int32_t> CycleOf(const std::vector<ProcessWait>& waits) {
  std::map<int32_t, ProcessWait> shown;
  for (const ProcessWait& wait : waits)
    shown[wait.process.pid] = wait;
  const auto read = [&](const ProcessName& process) -> std::optional<ProcessWait> {
    const auto found = shown.find(process.pid);
    if (found == shown.end()) return std::nullopt;
    return found->second;
  };
  std::vector<int32_t> pids;
  for (const ProcessWait& wait : FindWaitCycle(waits.front(), read))
    pids.push_back(wait.process.pid);
  return pids;
}

using Pids = std::vector<int32_t>;

TEST(WaitCycle, IsFoundAlongTheWaits) {
  EXPECT_EQ(CycleOf({WaitOf(1, {2}), WaitOf(2, {1})}), (Pids{1, 2}));
  EXPECT_EQ(CycleOf({WaitOf(1, {2}), WaitOf(2, {3}), WaitOf(3, {4}), WaitOf(4, {1})}),
            (Pids{1, 2, 3, 4}));
  EXPECT_EQ(CycleOf({WaitOf(1, {5, 6, 2}), WaitOf(2, {6, 1}), WaitOf(6, {5})}), (Pids{1, 2}))
      << "5 waits for nobody";
  EXPECT_EQ(CycleOf({WaitOf(1, {2, 3}), WaitOf(2, {4}), WaitOf(4, {1}), WaitOf(3, {1})}),
            (Pids{1, 3}))
      << "the shortest";
}

TEST(WaitCycle, IsNoneWhereSomebodyDoesNotWait) {
  EXPECT_EQ(CycleOf({WaitOf(1, {2})}), Pids{});
  EXPECT_EQ(CycleOf({WaitOf(1, {2}), WaitOf(2, {3})}), Pids{});
  EXPECT_EQ(CycleOf({WaitOf(1, {1})}), Pids{}) << "a rank of its own, on another thread";
  EXPECT_EQ(CycleOf({WaitOf(1, {2}), WaitOf(2, {3}), WaitOf(3, {2})}), Pids{}) << "others' cycle";
}

TEST(WaitCycle, IsFollowedNoFurtherThanAnIslandIsLarge) {
  std::vector<ProcessWait> waits;
  for (int32_t pid = 1; pid < 500; ++pid)
    waits.push_back(WaitOf(pid, {pid + 1}));
  waits.push_back(WaitOf(500, {1}));
  EXPECT_EQ(CycleOf(waits), Pids{});
}

// What another process shows may be anything.
TEST(WaitCycle, BelievesNoCountAndNoTextThatItReads) {
  ProcessWait wild = WaitOf(2, {1});
  wild.awaited_count = UINT32_MAX;
  std::memset(wild.call, 'x', sizeof(wild.call));
  EXPECT_EQ(CycleOf({WaitOf(1, {2}), wild}), (Pids{1, 2}));
  EXPECT_LT(CycleText({WaitOf(1, {2}), wild}).size(), 1000u);
}

TEST(WaitCycle, IsToldInOneSentence) {
  const std::string text = CycleText({WaitOf(1, {2}), WaitOf(2, {1})});
  EXPECT_EQ(
      text.find("CROSS_GROUP_DEADLOCK: pid 1, call of 1, waits for pid 2, call of 2, waits for "
                "pid 1 again; "),
      0u)
      << text;
}

}  // namespace
}  // namespace weft::test::wait_cycle_test
