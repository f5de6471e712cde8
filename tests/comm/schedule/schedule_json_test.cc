// Schedules as text and back; texts that are none.
#include "comm/schedule/schedule_json.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/table_schedule.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::schedule_json_test {
namespace {

void ExpectKept(const CollectiveSchedule& schedule) {
  const std::string text = ScheduleAsJson(schedule);
  const absl::StatusOr<std::unique_ptr<CollectiveSchedule>> read = ScheduleFromJson(text);
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
  EXPECT_EQ(text, ScheduleAsJson(**read));
  EXPECT_EQ(ScheduleHash(schedule), ScheduleHash(**read));
  for (int p = 0; p < schedule.goal().participants; ++p) {
    EXPECT_TRUE(ListOps(schedule, p) == ListOps(**read, p)) << p << " of\n" << text;
    EXPECT_EQ(schedule.ScratchOf(p), (*read)->ScratchOf(p));
  }
  EXPECT_TRUE(VerifySchedule(**read).ok());
}

TEST(ScheduleJson, WhatIsReadIsWhatWasWritten) {
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int n : {1, 2, 3, 6}) {
        for (const bool order_free : {false, true}) {
          const uint64_t count = kind == GoalKind::kBarrier ? 0 : 100;
          const std::unique_ptr<CollectiveSchedule> schedule = algorithm.make(
              {.kind = kind, .participants = n, .count = count, .order_free = order_free});
          if (schedule != nullptr) ExpectKept(*schedule);
        }
      }
    }
  }
}

TEST(ScheduleJson, PiecesAndTheirTreeAreKept) {
  const absl::StatusOr<ReductionOrder> order = ReductionOrder::Create(
      2, {{1}, {0, UnitForm::kAccumulator}, {1, UnitForm::kAccumulator}}, {0, 0, 2});
  ASSERT_TRUE(order.ok()) << order.status();
  const ScheduleGoal goal = {
      .kind = GoalKind::kAllReduce, .participants = 2, .count = 9, .order = *order};
  const std::unique_ptr<CollectiveSchedule> schedule = MakeDirectSchedule(goal);
  ASSERT_TRUE(VerifySchedule(*schedule).ok()) << VerifySchedule(*schedule).status();
  const absl::StatusOr<std::unique_ptr<CollectiveSchedule>> read =
      ScheduleFromJson(ScheduleAsJson(*schedule));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(goal.order, (*read)->goal().order);
  EXPECT_TRUE(VerifySchedule(**read).ok()) << VerifySchedule(**read).status();
}

TEST(ScheduleJson, HashIsOfWhatIsDone) {
  const ScheduleGoal goal = {.kind = GoalKind::kAllGather, .participants = 3, .count = 5};
  const std::unique_ptr<CollectiveSchedule> schedule = MakeRingSchedule(goal);
  ScheduleTable table = TableOf(*schedule);
  EXPECT_EQ(64u, ScheduleHash(*schedule).size());
  EXPECT_EQ(ScheduleHash(*schedule), ScheduleHash(TableSchedule(table)));
  table.participants[1].ops[0].tag += 1;
  EXPECT_NE(ScheduleHash(*schedule), ScheduleHash(TableSchedule(table)));
}

TEST(ScheduleJson, TextsThatAreNoneAreRefused) {
  for (
      const char* const text :
      {"", "[]", "{", "null", R"({"version":2})", R"({"version":1})",
       R"({"version":1,"algorithm":"a","goal":{"kind":"all_gather","participants":1,"count":-1},"window":1,"in_place":false,"participants":[]})",
       R"({"version":1,"algorithm":"a","goal":{"kind":"sum","participants":0,"count":1},"window":1,"in_place":false,"participants":[]})"}) {
    const absl::StatusOr<std::unique_ptr<CollectiveSchedule>> read = ScheduleFromJson(text);
    EXPECT_FALSE(read.ok()) << text;
  }
}

// A text with some bytes changed is refused, or is a schedule that can be proved or refused.
TEST(ScheduleJson, ChangedTextsDoNoHarm) {
  const uint64_t seed = 20261124;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const std::string text = ScheduleAsJson(
      *MakeDirectSchedule({.kind = GoalKind::kAllReduce, .participants = 3, .count = 6}));
  int read_anyway = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    for (uint64_t k = 0; k <= random() % 3; ++k)
      changed[random() % changed.size()] = "0123456789-,[]{}\"xa"[random() % 19];
    const absl::StatusOr<std::unique_ptr<CollectiveSchedule>> read = ScheduleFromJson(changed);
    if (!read.ok()) continue;
    ++read_anyway;
    (void)VerifySchedule(**read);
  }
  EXPECT_GT(read_anyway, 20);
}

}  // namespace
}  // namespace weft::schedule_json_test
