// One schedule for each rule, which breaks that rule and no other.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/table_schedule.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::refused_test {
namespace {

using ::testing::HasSubstr;

// all_reduce of 6 units by 3 participants. Of each: sends 0 and 2, receives 1 and 3, reduction 4, sends 5 and 7, receives 6 and 8.
ScheduleTable DirectTable(const ScheduleGoal& goal = {
                              .kind = GoalKind::kAllReduce, .participants = 3, .count = 6}) {
  return TableOf(**MakeSchedule("direct", goal));
}

ScheduleTable RingTable() {
  return TableOf(**MakeSchedule(
      "ring", {.kind = GoalKind::kAllReduce, .participants = 3, .count = 6, .order_free = true}));
}

std::string RefusalOf(ScheduleTable table) {
  const absl::StatusOr<ScheduleProof> proof = VerifySchedule(TableSchedule(std::move(table)));
  return proof.ok() ? "proved" : std::string(FromAbsl(proof.status().message()));
}

std::string RefusalAfter(const std::function<void(ScheduleTable*)>& change) {
  ScheduleTable table = DirectTable();
  change(&table);
  return RefusalOf(std::move(table));
}

TEST(RefusedSchedule, UnchangedOnesAreProved) {
  EXPECT_EQ("proved", RefusalOf(DirectTable()));
  EXPECT_EQ("proved", RefusalOf(RingTable()));
}

TEST(RefusedSchedule, OpThatIsNotWellFormed) {
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[0].from[0].place.offset = 7;
              }),
              HasSubstr("reads 2 units at 7"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[1].to.offset = UINT64_MAX;
              }),
              HasSubstr("writes 2 units"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[4].from[1].stride = UINT64_MAX;
              }),
              HasSubstr("times"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[1].to = {kInputBuffer, 0};
              }),
              HasSubstr("writes to its input"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[1].to = {99, 0};
              }),
              HasSubstr("buffer 99"));
  EXPECT_THAT(
      RefusalAfter([](ScheduleTable* table) { table->participants[0].ops[0].from.clear(); }),
      HasSubstr("0 sources"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[4].after = {{4, 5, 1}};
              }),
              HasSubstr("only earlier ones"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops[4].after = {{0, 4, 0}};
              }),
              HasSubstr("only earlier ones"));
}

TEST(RefusedSchedule, MessageWithoutItsOtherHalf) {
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { table->participants[0].ops[0].tag = 9; }),
              HasSubstr("(recv from 0, tag 1) is not sent"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { table->participants[0].ops[0].peer = 0; }),
              HasSubstr("none of the other participants"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].ops.push_back(table->participants[0].ops[0]);
              }),
              HasSubstr("is the same message"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { table->participants[0].ops[0].units = 1; }),
              HasSubstr("has 1 units, its receive 2"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[0].scratch[0].form = UnitForm::kAccumulator;
              }),
              HasSubstr("sends elements"));
}

TEST(RefusedSchedule, OpsThatWaitForEachOther) {
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { table->window = 0; }),
              HasSubstr("window of no ops"));
  // With one op at a time all send, and nobody receives.
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { table->window = 1; }),
              HasSubstr("wait for each other"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                // Each sends its result only when it has the one of the participant before it.
                for (TableParticipant& one : table->participants)
                  std::swap(one.ops[5], one.ops[6]), one.ops[6].after.push_back({5, 6, 1});
              }),
              HasSubstr("wait for each other"));
}

TEST(RefusedSchedule, OpsThatRace) {
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) {
                table->participants[1].ops[4].after = {{1, 2, 1}};
              }),
              HasSubstr("in no order"));
  EXPECT_THAT(
      RefusalAfter([](ScheduleTable* table) { table->participants[1].ops[5].after.clear(); }),
      HasSubstr("in no order"));
  ScheduleTable ring = RingTable();
  ring.participants[2].ops[3].after.clear();
  EXPECT_THAT(RefusalOf(ring), HasSubstr("in no order"));
}

TEST(RefusedSchedule, RaceThatOnlyIsOneInPlace) {
  // A copy of the input apart; the slice is read from there when the result of it may have arrived already.
  ScheduleTable table = TableOf(**MakeSchedule(
      "direct", {.kind = GoalKind::kBroadcast, .participants = 2, .count = 4, .root = 0}));
  TableParticipant& other = table.participants[1];
  other.scratch = {{4, UnitForm::kElement}};
  TableParticipant& root = table.participants[0];
  root.scratch = {{4, UnitForm::kElement}};
  root.ops[1].to = {kScratchBuffers, 0};
  root.ops.push_back({.action = OpAction::kCopy,
                      .units = 4,
                      .to = {kOutputBuffer, 0},
                      .from = {{{kScratchBuffers, 0}}},
                      .after = {{1, 2, 1}}});
  EXPECT_THAT(RefusalOf(table), HasSubstr("in no order in place"));
  table.in_place = false;
  EXPECT_EQ("proved", RefusalOf(table));
}

TEST(RefusedSchedule, UnitsThatNobodyHasWritten) {
  ScheduleTable table = DirectTable();
  for (TableParticipant& one : table.participants)
    one.scratch[0].units += 2;
  table.participants[0].ops[1].to.offset = 4;
  EXPECT_THAT(RefusalOf(table), HasSubstr("nobody has written"));
}

TEST(RefusedSchedule, ResultThatIsNotThePromisedOne) {
  // Two contributions in the other order.
  ScheduleTable table = DirectTable();
  std::swap(table.participants[0].ops[1].to, table.participants[0].ops[3].to);
  EXPECT_THAT(RefusalOf(table),
              HasSubstr("output is final ((0 + 2) + 1); it should be final ((0 + 1) + 2)"));
  table.goal.order_free = true;
  EXPECT_EQ("proved", RefusalOf(table));
  // Not rounded.
  EXPECT_THAT(RefusalAfter([](ScheduleTable* changed) {
                changed->participants[0].ops[4].stage = SumStage::kPartial;
              }),
              HasSubstr("rounds a sum"));
  // Another tree.
  EXPECT_THAT(RefusalAfter([](ScheduleTable* changed) {
                changed->merges.push_back({0, 0, 2});
                changed->participants[0].ops[4].merges = changed->merges.back();
              }),
              HasSubstr("(0 + (1 + 2))"));
  EXPECT_THAT(RefusalAfter([](ScheduleTable* changed) {
                changed->merges.push_back({0, 0, 3});
                changed->participants[0].ops[4].merges = changed->merges.back();
              }),
              HasSubstr("no tree"));
}

TEST(RefusedSchedule, ContributionThatCountsTwice) {
  ScheduleTable ring = RingTable();
  ring.participants[1].ops[2].from.push_back(
      {{kInputBuffer, ring.participants[1].ops[2].from[1].place.offset}});
  EXPECT_THAT(RefusalOf(ring), HasSubstr("it should be"));
}

TEST(RefusedSchedule, UnitsOfAnotherPlace) {
  ScheduleTable ring = RingTable();
  ring.participants[1].ops[2].from[1].place.offset -= 1;
  EXPECT_THAT(RefusalOf(ring), HasSubstr("different places"));
}

TEST(RefusedSchedule, BarrierThatLetsSomebodyPass) {
  ScheduleTable table = DirectTable({.kind = GoalKind::kBarrier, .participants = 3});
  EXPECT_EQ("proved", RefusalOf(table));
  // Participant 0 does not tell 1, nor does anybody else for it.
  table.participants[0].ops.erase(table.participants[0].ops.begin());
  std::erase_if(table.participants[1].ops,
                [](const ScheduleOp& op) { return op.action == OpAction::kRecv && op.peer == 0; });
  EXPECT_THAT(RefusalOf(table), HasSubstr("participant 1 may leave the barrier before 0 has come"));
}

TEST(RefusedSchedule, TrafficThatIsNotTheClaimedOne) {
  EXPECT_THAT(RefusalAfter([](ScheduleTable* table) { ++table->participants[2].sent.elements; }),
              HasSubstr("by the algorithm it is 9"));
}

TEST(RefusedSchedule, GoalThatIsNone) {
  EXPECT_FALSE(
      MakeSchedule("direct",
                   {.kind = GoalKind::kBroadcast, .participants = 2, .count = 1, .root = 2})
          .ok());
  EXPECT_FALSE(MakeSchedule("direct", {.kind = GoalKind::kAllReduce, .participants = 0}).ok());
  EXPECT_FALSE(
      MakeSchedule("direct", {.kind = GoalKind::kAllReduce, .participants = 2, .count = UINT64_MAX})
          .ok());
  EXPECT_FALSE(MakeSchedule("fastest", {.kind = GoalKind::kAllReduce, .participants = 2}).ok());
  EXPECT_FALSE(MakeSchedule("ring", {.kind = GoalKind::kAllReduce, .participants = 2}).ok());
}

}  // namespace
}  // namespace weft::refused_test
