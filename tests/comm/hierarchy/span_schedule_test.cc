// There is a schedule for every kind, operation and number of ranks, and it is right.
#include "comm/hierarchy/span_schedule.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::span_schedule_test {
namespace {

// `shape`: all on islands of 2; of 33; by turns on 3; each alone.
Islands IslandsOf(int size, int shape) {
  Membership membership;
  for (int rank = 0; rank < size; ++rank) {
    int node = rank;
    if (shape == 0) node = rank / 2;
    if (shape == 1) node = rank / 33;
    if (shape == 2) node = rank % 3;
    membership.members.push_back({.rank = rank, .fake_node = node});
  }
  return IslandsOf(membership);
}

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> DefaultSchedule(const Collective& call,
                                                                    const Islands& islands) {
  const LinkModel links = LinkModel::Default();
  SpanChoices choices(islands, links);
  return ScheduleOf(call, 0, islands, choices);
}

constexpr OpKind kGlobalKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce, OpKind::kReduce,
                                   OpKind::kBroadcast, OpKind::kAllGather, OpKind::kReduceScatter,
                                   OpKind::kGather,    OpKind::kScatter,   OpKind::kAllToAll,
                                   OpKind::kScan,      OpKind::kExscan};

TEST(SpanSchedule, IsThereForEveryKindAndNumberOfRanks) {
  for (const int size : {2, 5, 64, 65, 70}) {
    for (int shape = 0; shape < 4; ++shape) {
      const Islands islands = IslandsOf(size, shape);
      for (const OpKind kind : kGlobalKinds) {
        for (const size_t count : {size_t{3}, size_t{20'000}}) {
          // The proof of many ranks takes time.
          if (size > 5 && count > 3 && (kind == OpKind::kAllToAll || shape > 1)) continue;
#if defined(WEFT_SANITIZE)
          if (size > 5 && (count > 3 || size != 65)) continue;
#endif
          const Collective call{
              .kind = kind, .dtype = WEFT_FLOAT32, .count = kind == OpKind::kBarrier ? 0 : count};
          const auto schedule = DefaultSchedule(call, islands);
          ASSERT_TRUE(schedule.ok())
              << size << " ranks, shape " << shape << ": " << schedule.status();
          const absl::Status proof = VerifySchedule(**schedule).status();
          ASSERT_TRUE(proof.ok()) << (*schedule)->algorithm() << " " << OpKindName(kind) << " of "
                                  << size << ", shape " << shape << ": " << proof;
        }
      }
    }
  }
}

TEST(SpanSchedule, AnAlgorithmIsAHintUnlessTheCallInsists) {
  const LinkModel links = LinkModel::Default();
  const Islands islands = IslandsOf(4, 0);
  SpanChoices choices(islands, links);
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 5};
  const auto choose = [&] {
    return ChooseSchedule(call, 0, islands, ForeignSchedules(), choices);
  };
  const auto without = choose();
  ASSERT_TRUE(without.ok());
  call.algorithm = Protocol::kStaged;
  const auto hinted = choose();
  ASSERT_TRUE(hinted.ok()) << hinted.status();
  EXPECT_EQ(hinted->schedule->algorithm(), without->schedule->algorithm());
  call.strict_algorithm = true;
  EXPECT_EQ(ResultOf(choose().status()), WEFT_UNSUPPORTED);
  call.algorithm = Protocol::kAuto;
  EXPECT_TRUE(choose().ok());
}

}  // namespace
}  // namespace weft::span_schedule_test
