// Records of failures and what is known of connections, without a network: knowledge is merged in any order and as often as one
// likes, and comes out the same.
#include "comm/agent/island_relay.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/agent/island_reach.h"

namespace weft::island_relay_test {
namespace {

constexpr int64_t kGatherNs = 1000;
constexpr int64_t kPatienceNs = 1'000'000;

FailureRecord Record(weft_result_t result, int culprit, int origin = 0, uint64_t group = 1) {
  return {.group_id = group,
          .finder = origin,
          .culprit = culprit,
          .result = result,
          .origin = origin,
          .sentence = StrCat(result, " by ", culprit)};
}

FailureRecord Killed(int culprit) {
  FailureRecord record = Record(WEFT_PEER_LOST, culprit);
  record.exit.signal = 9;
  return record;
}

// A rank that ended by itself, or left, does not hide that others have called different things.
TEST(IslandRelay, FactsBeatConsequencesThenTheLowerCulpritCounts) {
  const std::vector<FailureRecord> order = {
      Killed(2),
      Killed(3),
      Record(WEFT_MISMATCH, 0),
      Record(WEFT_PEER_LOST, 1),
      Record(WEFT_UNREACHABLE, 1),
      Record(WEFT_TIMEOUT, 0),
      Record(WEFT_TIMEOUT, -1),
      Record(WEFT_SYSTEM_ERROR, 0),
      Record(WEFT_ABORTED, 0),
  };
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = 0; b < order.size(); ++b)
      EXPECT_EQ(BeatsRecord(order[a], order[b]), a < b) << a << " " << b;
  }
}

// Islands that exchange what they know in random order, with repetitions.
class Exchange {
 public:
  // `active`: the first of them; the others are silent.
  Exchange(uint64_t seed, int islands, int active) : random_(seed), active_(active) {
    for (int island = 0; island < active; ++island)
      relays_.emplace_back(IslandNumberSet::All(islands), island, kGatherNs, kPatienceNs);
    settled_.resize(relays_.size());
    said_.resize(relays_.size());
  }

  IslandRelay& relay(int island) { return relays_[static_cast<size_t>(island)]; }

  void Run(int64_t until_ns) {
    for (; now_ns_ < until_ns; now_ns_ += 50) {
      for (int i = 0; i < active_; ++i)
        StepOne(static_cast<int>(random_() % relays_.size()));
    }
  }

  const std::vector<GroupVerdict>& settled(int island) const {
    return settled_[static_cast<size_t>(island)];
  }

  int64_t now_ns() const { return now_ns_; }

 private:
  void StepOne(int island) {
    const auto self = static_cast<size_t>(island);
    for (GroupVerdict& verdict : relay(island).Step(now_ns_))
      said_[self].push_back(std::move(verdict));
    for (GroupVerdict& verdict : relay(island).TakeSettled())
      settled_[self].push_back(std::move(verdict));
    // Anything that anybody has ever said, again and again.
    const size_t from = random_() % relays_.size();
    if (from == self || said_[from].empty()) return;
    const size_t newest = said_[from].size() - 1;
    relay(island).Merge(static_cast<int>(from),
                        said_[from][random_() % 2 == 0 ? newest : random_() % (newest + 1)],
                        now_ns_);
  }

  std::mt19937_64 random_;
  const int active_;
  int64_t now_ns_ = 0;
  std::vector<IslandRelay> relays_;
  std::vector<std::vector<GroupVerdict>> said_;
  std::vector<std::vector<GroupVerdict>> settled_;
};

TEST(IslandRelay, OfDeadlinesTheOneThatWasTracedFartherCounts) {
  FailureRecord near = Record(WEFT_TIMEOUT, 0);
  FailureRecord farther = Record(WEFT_TIMEOUT, 5);
  farther.traced = 1;
  FailureRecord to_the_end = Record(WEFT_TIMEOUT, 7);
  to_the_end.traced = FailureRecord::kTracedToEnd;
  FailureRecord in_a_circle = Record(WEFT_TIMEOUT, 6);
  in_a_circle.traced = FailureRecord::kTracedInCircle;
  EXPECT_TRUE(BeatsRecord(farther, near));
  EXPECT_TRUE(BeatsRecord(to_the_end, farther));
  EXPECT_TRUE(BeatsRecord(to_the_end, in_a_circle));
  EXPECT_TRUE(BeatsRecord(in_a_circle, farther));
  EXPECT_FALSE(BeatsRecord(near, farther));
  EXPECT_TRUE(BeatsRecord(Record(WEFT_UNREACHABLE, 9), to_the_end));
  // It goes between islands.
  farther.way = {5, 2, 7};
  farther.found_bytes = 3;
  GroupVerdict verdict{.record = farther};
  const absl::StatusOr<GroupVerdict> read = DecodeVerdictOf(EncodeVerdictOf(verdict), 0);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->record, farther);
}

// A step takes its time, then the frames that have come, which are a little newer. Who reads what has settled may end its process
// at once: the other islands must have been told.
TEST(IslandRelay, WhatHasSettledIsToldByTheStepThatGivesItOut) {
  IslandRelay relay(IslandNumberSet::All(3), 1, kGatherNs, kPatienceNs);
  GroupVerdict theirs{.record = Record(WEFT_MISMATCH, 2),
                      .excluded = IslandNumberSet(3),
                      .closed = IslandNumberSet::All(3),
                      .settled = true};
  relay.Merge(0, theirs, 501);
  const std::vector<GroupVerdict> news = relay.Step(500);
  ASSERT_EQ(relay.TakeSettled().size(), 1U);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_TRUE(news[0].settled);
  EXPECT_TRUE(relay.Step(502).empty());
}

TEST(IslandRelay, AllSettleOnTheBestThatAnybodyFoundInTime) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Exchange exchange(seed, 5, 5);
    ASSERT_TRUE(exchange.relay(3).Raise(Record(WEFT_ABORTED, 0, 3), 0).ok());
    ASSERT_TRUE(exchange.relay(1).Raise(Record(WEFT_TIMEOUT, 4, 1), 0).ok());
    exchange.Run(400);
    ASSERT_TRUE(exchange.relay(4).Raise(Record(WEFT_PEER_LOST, 2, 4), exchange.now_ns()).ok());
    exchange.Run(20'000);
    for (int island = 0; island < 5; ++island) {
      ASSERT_EQ(exchange.settled(island).size(), 1u) << island;
      EXPECT_EQ(exchange.settled(island)[0].record.result, WEFT_PEER_LOST);
    }
    EXPECT_EQ(ResultOf(exchange.relay(0).Raise(Record(WEFT_PEER_LOST, 0), exchange.now_ns())),
              WEFT_BAD_STATE);
  }
}

// One island says its part to one other one, and is gone: those that are left settle on the same.
TEST(IslandRelay, WhatALostIslandHadSaidCountsForAllOrForNone) {
  int counted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Exchange exchange(seed, 5, 4);
    ASSERT_TRUE(exchange.relay(0).Raise(Record(WEFT_TIMEOUT, 1), 0).ok());
    GroupVerdict last{.record = Record(WEFT_PEER_LOST, 3, 4),
                      .excluded = IslandNumberSet(5),
                      .closed = IslandNumberSet(5)};
    last.closed.Add(4);
    IslandNumberSet gone(5);
    gone.Add(4);
    std::mt19937_64 random(seed);
    const int heard_by = static_cast<int>(random() % 4);
    const auto heard_ns = static_cast<int64_t>(random() % 4000);
    std::vector<int64_t> excluded_ns(4);
    for (int64_t& one_ns : excluded_ns)
      one_ns = static_cast<int64_t>(random() % 4000);
    for (int64_t at_ns = 0; at_ns < 30'000; at_ns += 50) {
      if (at_ns <= heard_ns && heard_ns < at_ns + 50) {
        exchange.relay(heard_by).Merge(4, last, exchange.now_ns());
      }
      for (int island = 0; island < 4; ++island) {
        if (at_ns >= excluded_ns[static_cast<size_t>(island)]) exchange.relay(island).Exclude(gone);
      }
      exchange.Run(at_ns);
    }
    for (int island = 0; island < 4; ++island) {
      ASSERT_EQ(exchange.settled(island).size(), 1u) << island;
      EXPECT_EQ(exchange.settled(island)[0].record.result, exchange.settled(0)[0].record.result);
    }
    counted += exchange.settled(0)[0].record.result == WEFT_PEER_LOST ? 1 : 0;
  }
  // Both happen.
  EXPECT_GT(counted, 10);
  EXPECT_LT(counted, 190);
}

TEST(IslandRelay, ItsMemoryIsBounded) {
  IslandRelay relay(IslandNumberSet::All(2), 0, kGatherNs, kPatienceNs);
  for (uint64_t group = 0; group < IslandRelay::kGroupsMax; ++group)
    ASSERT_TRUE(relay.Raise(Record(WEFT_TIMEOUT, 1, 0, group), 0).ok());
  EXPECT_EQ(ResultOf(relay.Raise(Record(WEFT_TIMEOUT, 1, 0, 1000), 0)), WEFT_OUT_OF_MEMORY);
  // When the other island is not waited for they settle, and make room.
  IslandNumberSet gone(2);
  gone.Add(1);
  relay.Exclude(gone);
  relay.Step(2 * kGatherNs);
  EXPECT_EQ(relay.TakeSettled().size(), IslandRelay::kGroupsMax);
  for (uint64_t group = 1000; group < 5000; ++group) {
    ASSERT_TRUE(relay.Raise(Record(WEFT_TIMEOUT, 1, 0, group), 0).ok()) << group;
    relay.Step(2 * kGatherNs);
    relay.Step(4 * kGatherNs);
    EXPECT_LE(relay.All().size(), IslandRelay::kGroupsMax);
  }
}

class Reach : public ::testing::Test {
 protected:
  static constexpr int64_t kConfirmNs = 1000;

  // `count` islands of one rank each.
  void Make(int count) {
    std::vector<Island> islands(static_cast<size_t>(count));
    for (int island = 0; island < count; ++island)
      islands[static_cast<size_t>(island)].processes.push_back({.world_rank = island});
    map_ = std::make_unique<IslandMap>(std::move(islands), count, 0);
    membership_ = std::make_unique<IslandMembership>(*map_, 1, IslandNumberSet::All(count));
    reach_ = std::make_unique<IslandReach>(*membership_, count, 0, kConfirmNs, 0);
    none_ = IslandNumberSet(count);
  }

  std::unique_ptr<IslandMap> map_;
  std::unique_ptr<IslandMembership> membership_;
  std::unique_ptr<IslandReach> reach_;
  IslandNumberSet none_;
};

TEST_F(Reach, AnIslandIsNotMissingWhileOthersReachIt) {
  Make(5);
  EXPECT_TRUE(reach_->Judge(0, none_).empty());
  EXPECT_EQ(reach_->connected().Count(), 5);
  EXPECT_TRUE(reach_->SetOwn({1}, {}));
  EXPECT_FALSE(reach_->SetOwn({1}, {}));
  reach_->Judge(0, none_);
  EXPECT_EQ(reach_->connected().Count(), 5);
  for (int other = 2; other < 5; ++other)
    EXPECT_TRUE(reach_->Merge({.island = other, .number = 1, .lost = {1}}));
  reach_->Judge(0, none_);
  EXPECT_FALSE(reach_->connected().Has(1));
  EXPECT_TRUE(reach_->Judge(kConfirmNs - 1, none_).empty());
  EXPECT_EQ(reach_->Judge(kConfirmNs, none_), std::vector<int>{1});
  EXPECT_TRUE(reach_->Judge(2 * kConfirmNs, none_).empty()) << "said once";
  // An older report says nothing, a newer one does.
  EXPECT_FALSE(reach_->Merge({.island = 2, .number = 1}));
  EXPECT_TRUE(reach_->Merge({.island = 2, .number = 2}));
  reach_->Judge(3 * kConfirmNs, none_);
  EXPECT_TRUE(reach_->connected().Has(1));
  EXPECT_TRUE(reach_->unreachable().Empty());
}

TEST_F(Reach, AnAnswerIsHeardAndTheDeadAreNotMissing) {
  Make(3);
  reach_->SetOwn({1, 2}, {});
  reach_->Judge(0, none_);
  reach_->Heard(1, kConfirmNs / 2);
  EXPECT_EQ(reach_->Judge(kConfirmNs, none_), std::vector<int>{2});
  IslandNumberSet ended = none_;
  ended.Add(1);
  EXPECT_TRUE(reach_->Judge(3 * kConfirmNs, ended).empty());
}

TEST_F(Reach, AConnectionBesideTheTopologyCountsIfBothSaySo) {
  Make(16);
  std::vector<int32_t> neighbours;
  for (const int island : membership_->NeighboursOf(0))
    neighbours.push_back(island);
  ASSERT_FALSE(membership_->AreNeighbours(0, 3));
  reach_->SetOwn(neighbours, {3});
  reach_->Judge(0, none_);
  EXPECT_EQ(reach_->connected().Count(), 1);
  reach_->Merge({.island = 3, .number = 1, .extra = {0}});
  reach_->Judge(0, none_);
  EXPECT_EQ(reach_->connected().Count(), 16);
}

}  // namespace
}  // namespace weft::island_relay_test
