// Schedules of the user's: what is read, what is refused, which calls they serve, and groups over fake nodes that carry them out.
#include "comm/hierarchy/foreign_schedules.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/hierarchy/schedule_word.h"
#include "comm/hierarchy/span_schedule.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/scaled_schedule.h"
#include "comm/schedule/schedule_json.h"
#include "comm/schedule/table_schedule.h"
#include "comm/schedule/verify_schedule.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/collective_case.h"
#include "tests/support/leak_check.h"

namespace weft::test::foreign_schedules_test {
namespace {

const ScheduleGoal kFreeSum = {
    .kind = GoalKind::kAllReduce, .participants = 4, .count = 4, .order_free = true};
const ScheduleGoal kSum = {.kind = GoalKind::kAllReduce, .participants = 4, .count = 3};

std::string Write(const TemporaryDirectory& folder, const std::string& name,
                  const std::string& text) {
  std::string path = folder.path() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string Write(const TemporaryDirectory& folder, const std::string& name,
                  const CollectiveSchedule& schedule) {
  return Write(folder, name, ScheduleAsJson(schedule));
}

std::string Ring(const TemporaryDirectory& folder) {
  return Write(folder, "ring", *MakeSchedule("ring", kFreeSum).value());
}

std::string Tree(const TemporaryDirectory& folder) {
  return Write(folder, "tree", *MakeSchedule("tree_halving", kSum).value());
}

TEST(ScaledSchedule, IsProvedLikeTheOther) {
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int n : {1, 2, 5, 8}) {
        const bool barrier = kind == GoalKind::kBarrier;
        const auto schedule = MakeSchedule(
            algorithm.name, {.kind = kind, .participants = n, .count = barrier ? 0UL : 7UL});
        if (!schedule.ok()) continue;
        const auto table = std::make_shared<TableSchedule>(TableOf(**schedule));
        const ScaledSchedule scaled(table, 11);
        EXPECT_EQ(scaled.goal().count, barrier ? 0U : 77U);
        const auto proof = VerifySchedule(scaled);
        // A barrier's messages have no units, which a table does not say.
        EXPECT_TRUE(proof.ok() || barrier)
            << algorithm.name << " " << GoalName(kind) << " of " << n << ": " << proof.status();
      }
    }
  }
}

TEST(ForeignSchedules, ServeCallsThatTheyWereMadeFor) {
  const TemporaryDirectory folder;
  const auto foreign = ForeignSchedules::Read(StrCat(Ring(folder), ":", Tree(folder)));
  ASSERT_TRUE(foreign.ok()) << foreign.status();
  const auto taken = [&](ScheduleGoal goal, bool any_order) -> std::string {
    const ForeignSchedule* const one = foreign->Find(goal, any_order);
    return one == nullptr ? "" : std::string(one->schedule->algorithm());
  };
  ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = 4, .count = 12};
  EXPECT_EQ(taken(goal, true), "ring");
  EXPECT_EQ(taken(goal, false), "tree_halving");
  goal.count = 9;
  EXPECT_EQ(taken(goal, true), "tree_halving");
  goal.count = 7;
  EXPECT_EQ(taken(goal, true), "");
  goal.count = 0;
  EXPECT_EQ(taken(goal, true), "");
  goal.count = 12;
  goal.participants = 5;
  EXPECT_EQ(taken(goal, true), "");
  goal = {.kind = GoalKind::kReduce, .participants = 4, .count = 12};
  EXPECT_EQ(taken(goal, true), "");
  EXPECT_EQ(ForeignSchedules().Find(kSum, true), nullptr);
}

TEST(ForeignSchedules, AreNotReadIfTheyAreWrong) {
  const TemporaryDirectory folder;
  const auto refused = [](const std::string& path) {
    const absl::Status status = ForeignSchedules::Read(path).status();
    EXPECT_NE(status.message().find(ToAbsl(path)), absl::string_view::npos) << status;
    return status;
  };
  EXPECT_EQ(ResultOf(refused(folder.path() / "nowhere")), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(ResultOf(refused(Write(folder, "text", "no schedule"))), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(refused(folder.path())), WEFT_SYSTEM_ERROR);
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(refused(fifo).ok());  // and nobody waits

  ScheduleTable wrong = TableOf(*MakeSchedule("ring", kFreeSum).value());
  wrong.participants[2].ops[0].units = 0;
  const absl::Status status = refused(Write(folder, "wrong", TableSchedule(std::move(wrong))));
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("participant"), absl::string_view::npos) << status;

  ScheduleTable wide = TableOf(*MakeSchedule("ring", kFreeSum).value());
  wide.window = 1 << 20;
  EXPECT_EQ(ResultOf(refused(Write(folder, "wide", TableSchedule(std::move(wide))))),
            WEFT_UNSUPPORTED);
  ScheduleTable large = TableOf(*MakeSchedule("ring", kFreeSum).value());
  large.participants[1].scratch.push_back({1 << 20, UnitForm::kElement});
  EXPECT_EQ(ResultOf(refused(Write(folder, "large", TableSchedule(std::move(large))))),
            WEFT_UNSUPPORTED);
  const auto many =
      MakeSchedule("direct", {.kind = GoalKind::kReduceScatter, .participants = 70, .count = 1});
  EXPECT_EQ(ResultOf(refused(Write(folder, "many", *many.value()))), WEFT_UNSUPPORTED);
}

TEST(ForeignSchedules, AreTakenBeforeWeftsOwnWhereTheBitsAllowIt) {
  const TemporaryDirectory folder;
  const auto foreign = ForeignSchedules::Read(Ring(folder));
  ASSERT_TRUE(foreign.ok()) << foreign.status();
  Membership membership;
  for (int rank = 0; rank < 4; ++rank)
    membership.members.push_back({.rank = rank, .fake_node = rank / 2});
  const Islands islands = IslandsOf(membership);
  const LinkModel links = LinkModel::Default();
  SpanChoices choices(islands, links);
  const auto is_taken = [&](const Collective& call) {
    const auto chosen = ChooseSchedule(call, 0, islands, *foreign, choices);
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return chosen.ok() && chosen->foreign != nullptr;
  };
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_INT32, .op = WEFT_SUM, .count = 400};
  EXPECT_TRUE(is_taken(call));
  call.dtype = WEFT_FLOAT32;
  EXPECT_FALSE(is_taken(call));
  call.numerics = WEFT_NUMERICS_FAST;
  EXPECT_TRUE(is_taken(call));
  call.dtype = WEFT_BFLOAT16;
  EXPECT_FALSE(is_taken(call));
  call.op = WEFT_MAX;
  EXPECT_TRUE(is_taken(call));
  call.dtype = WEFT_INT32;
  call.op = WEFT_AVG;
  EXPECT_FALSE(is_taken(call));
}

TEST(ScheduleWord, SaysWhoDiffersAndIsItselfAsText) {
  const std::string a(64, 'a');
  const std::string b(64, 'b');
  const ScheduleWord none{.rank = 0};
  const ScheduleWord first{.rank = 1, .hash = a};
  const ScheduleWord second{.rank = 5, .hash = b};
  const ScheduleWord broken{.result = WEFT_REMOTE_ERROR, .rank = 3};
  EXPECT_EQ(Together(first, {.rank = 2, .hash = a}), first);
  EXPECT_EQ(Together(first, broken), broken);
  const ScheduleWord differ = Together(first, second);
  EXPECT_EQ(ResultOf(StatusOf(differ, "g")), WEFT_MISMATCH);
  const absl::Status status = StatusOf(Together(none, differ), "g");
  for (const std::string& word : {a, b, std::string("rank 1"), std::string("rank 5")})
    EXPECT_NE(status.message().find(ToAbsl(word)), absl::string_view::npos) << status;
  EXPECT_EQ(ResultOf(StatusOf(Together(none, broken), "g")), WEFT_REMOTE_ERROR);
  for (const ScheduleWord& word : {none, first, broken, differ})
    EXPECT_EQ(ScheduleWordFromText(TextOf(word)), word);
  for (const char* const text : {"", "1", "schedules 0 1 aa -1 -", "schedules 0 x - -1 -"})
    EXPECT_FALSE(ScheduleWordFromText(text).has_value()) << text;
}

// Ring and tree over two nodes, in the calls that they serve and those that they do not.
TEST(ForeignSchedules, AreCarriedOutByGroupsOverNodes) {
  const uint64_t seed = TestSeed(46);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const TemporaryDirectory folder;
  const std::string files = StrCat(Ring(folder), ":", Tree(folder));
  for (const char* const nodes : {"2", "0,1,0,1"}) {
    RunNodes(
        {4, nodes},
        [&](ProcessGroup& group) -> std::string {
          for (const size_t count : {4UL, 6UL, 7UL, 1020UL, 30'000UL}) {
            for (const weft_dtype_t dtype : {WEFT_INT32, WEFT_FLOAT32, WEFT_BFLOAT16}) {
              const CollectiveCase test{.kind = OpKind::kAllReduce,
                                        .dtype = dtype,
                                        .op = dtype == WEFT_BFLOAT16 ? WEFT_AVG : WEFT_SUM,
                                        .count = count,
                                        .seed = seed + count};
              std::string problem =
                  RunCase(group, test, LocalChoice::FromSeed(test.seed, group.rank()));
              if (!problem.empty()) return problem;
              const std::string explained =
                  group.Explain({.kind = test.kind, .dtype = dtype, .op = test.op, .count = count},
                                BufferKind::kPrivate);
              const bool from_file = explained.find("schedule file: ") != std::string::npos;
              const bool ring = explained.find("schedule: ring") != std::string::npos;
              const bool any_order = dtype == WEFT_INT32;
              if (ring != (any_order && count % 4 == 0) || from_file != (ring || count % 3 == 0))
                return StrCat(count, " of type ", static_cast<int>(dtype), ": ", explained);
            }
          }
          // The file is for four ranks, and so not for a part.
          auto part = group.Split(group.rank() % 2, 0, {.name = ""});
          if (!part.ok()) return std::string(part.status().message());
          std::string problem = RunCase(**part,
                                        {.kind = OpKind::kAllReduce,
                                         .dtype = WEFT_INT32,
                                         .op = WEFT_SUM,
                                         .count = 400,
                                         .seed = seed},
                                        {});
          (*part)->Close();
          return problem;
        },
        SpanSettings{.schedule_files = files});
  }
}

// Who has other schedules than rank 0 is named, with both hashes, on all ranks, and before anybody has the group.
TEST(ForeignSchedules, RanksWithDifferentOnesGetNoGroup) {
  const TemporaryDirectory folder;
  const std::string ring = Ring(folder);
  const std::string tree = Tree(folder);
  const std::string ring_hash = ForeignSchedules::Read(ring)->hash();
  const std::string tree_hash = ForeignSchedules::Read(tree)->hash();
  for (const int other : {1, 3}) {
    FailToMake(
        {4, "2"}, [&](int rank) { return rank == other ? tree : ring; },
        [&](int /*rank*/, const absl::Status& status) -> std::string {
          for (const std::string& word : {ring_hash, tree_hash, StrCat("rank ", other)}) {
            if (status.message().find(ToAbsl(word)) == absl::string_view::npos)
              return std::string(status.message());
          }
          return ResultOf(status) == WEFT_MISMATCH ? "" : "another result";
        });
  }
  // Nobody's but one's.
  FailToMake(
      {3, "0,0,1"}, [&](int rank) { return rank == 2 ? ring : ""; },
      [&](int /*rank*/, const absl::Status& status) {
        return ResultOf(status) == WEFT_MISMATCH ? "" : std::string(status.message());
      });
}

TEST(ForeignSchedules, AWrongOneOfOneRankEndsTheMakingOnAll) {
  const TemporaryDirectory folder;
  const std::string ring = Ring(folder);
  ScheduleTable table = TableOf(*MakeSchedule("ring", kFreeSum).value());
  table.participants[0].ops.pop_back();
  const std::string wrong = Write(folder, "wrong", TableSchedule(std::move(table)));
  for (const int bad : {0, 1, 2}) {
    const auto check = [&](int rank, const absl::Status& status) -> std::string {
      const bool own = rank == bad;
      const std::string says = own ? "participant" : StrCat("rank ", bad);
      const bool right = ResultOf(status) == (own ? WEFT_INVALID_ARGUMENT : WEFT_REMOTE_ERROR) &&
                         status.message().find(ToAbsl(says)) != absl::string_view::npos;
      return right
                 ? ""
                 : StrCat(static_cast<int>(ResultOf(status)), ": ", std::string(status.message()));
    };
    FailToMake(
        {4, "2"}, [&](int rank) { return rank == bad ? wrong : ring; }, check);
  }
}

}  // namespace
}  // namespace weft::test::foreign_schedules_test
