// Who is said to wait for ever: against a small world of ranks that start and await operations, run to its end.
#include "shard/step/stuck.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/leak_check.h"

namespace weft::stuck_test {
namespace {

// What a rank does, in order: starts the next operation of a channel, or waits for the last one that it has started there.
struct Act {
  ContextGroup channel;
  bool waits;
};

// Operations end when all ranks of their group have started them, in order; a chain starts one in another channel then.
class World {
 public:
  World(const MeshShape& shape, std::vector<std::vector<Act>> acts, bool chains)
      : shape_(shape), acts_(std::move(acts)), chains_(chains) {
    waits_.resize(acts_.size());
    next_.resize(acts_.size());
  }

  // Makes one of the ranks go on; false if it cannot.
  bool GoOn(int rank) {
    const auto r = static_cast<size_t>(rank);
    bool moved = false;
    for (size_t c = 0; c < kContextGroupCount; ++c)
      moved = EndOldest(rank, static_cast<ContextGroup>(c)) || moved;
    if (next_[r] == acts_[r].size()) return moved;
    const Act act = acts_[r][next_[r]];
    OpCounts& progress = waits_[r].channels[static_cast<size_t>(act.channel)];
    if (act.waits && progress.ended < progress.started) return moved;
    if (!act.waits) ++progress.started;
    ++next_[r];
    return true;
  }

  bool GoOnUntilQuiet() {
    bool any = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.size; ++rank)
        moved = GoOn(rank) || moved;
      any = any || moved;
    }
    return any;
  }

  bool Done(int rank) const {
    return next_[static_cast<size_t>(rank)] == acts_[static_cast<size_t>(rank)].size();
  }

  size_t position(int rank) const { return next_[static_cast<size_t>(rank)]; }

  // As the ranks show it: `ended` may be older than it is, unless `random` is nullptr.
  std::vector<RankWait> Shown(std::mt19937_64* random) const {
    std::vector<RankWait> shown = waits_;
    for (size_t r = 0; r < shown.size(); ++r) {
      const bool waits = next_[r] < acts_[r].size() && acts_[r][next_[r]].waits;
      const ContextGroup channel = waits ? acts_[r][next_[r]].channel : ContextGroup::kMesh;
      const OpCounts& awaited = waits_[r].channels[static_cast<size_t>(channel)];
      shown[r].waits = waits && awaited.ended < awaited.started;
      shown[r].channel = channel;
      shown[r].number = awaited.started;
      for (OpCounts& progress : shown[r].channels) {
        if (random != nullptr && progress.ended > 0) progress.ended -= (*random)() % 2;
      }
    }
    return shown;
  }

 private:
  bool EndOldest(int rank, ContextGroup channel) {
    const auto c = static_cast<size_t>(channel);
    OpCounts& progress = waits_[static_cast<size_t>(rank)].channels[c];
    if (progress.ended == progress.started) return false;
    for (int peer = 0; peer < shape_.size; ++peer) {
      if (!Meet(channel, shape_, rank, peer)) continue;
      if (waits_[static_cast<size_t>(peer)].channels[c].started <= progress.ended) return false;
    }
    ++progress.ended;
    if (chains_ && channel == ContextGroup::kInnerScatter) {
      ++waits_[static_cast<size_t>(rank)]
            .channels[static_cast<size_t>(ContextGroup::kOuterReduce)]
            .started;
    }
    return true;
  }

  const MeshShape shape_;
  const std::vector<std::vector<Act>> acts_;
  const bool chains_;
  std::vector<RankWait> waits_;
  std::vector<size_t> next_;
};

std::vector<Act> RandomActs(std::mt19937_64& random) {
  constexpr ContextGroup kChannels[] = {ContextGroup::kMesh, ContextGroup::kGather,
                                        ContextGroup::kInnerGather, ContextGroup::kInnerScatter};
  std::vector<Act> acts;
  acts.reserve(12 + std::size(kChannels));
  for (int i = 0; i < 12; ++i)
    acts.push_back({kChannels[random() % std::size(kChannels)], random() % 2 == 0});
  for (const ContextGroup channel : kChannels)
    acts.push_back({channel, true});
  return acts;
}

// One rank leaves something out, does it twice, or swaps two.
void Disturb(std::vector<Act>& acts, std::mt19937_64& random) {
  const size_t at = random() % (acts.size() - 1);
  switch (random() % 3) {
    case 0:
      acts.erase(acts.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      acts.insert(acts.begin() + static_cast<std::ptrdiff_t>(at), acts[at]);
      break;
    default:
      std::swap(acts[at], acts[at + 1]);
  }
}

TEST(Stuck, IsWhoeverNeverMovesAgainAndNobodyElse) {
  constexpr MeshShape kShapes[] = {{2, 2}, {3, 3}, {4, 2}, {6, 2}, {8, 4}};
  const uint64_t first_seed = test::TestSeed(1);
  int found = 0;
  int innocent = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const MeshShape shape = kShapes[random() % std::size(kShapes)];
    const std::vector<Act> common = RandomActs(random);
    std::vector<std::vector<Act>> acts(static_cast<size_t>(shape.size), common);
    const bool disturbed = random() % 4 != 0;
    if (disturbed) Disturb(acts[random() % acts.size()], random);
    World world(shape, acts, random() % 2 == 0);
    const size_t turns = random() % 300;
    for (size_t turn = 0; turn < turns; ++turn)
      world.GoOn(static_cast<int>(random() % static_cast<size_t>(shape.size)));

    std::vector<RankWait> shown = world.Shown(&random);
    std::vector<bool> stuck = FindStuck(shown, shape);
    std::vector<size_t> before;
    before.reserve(static_cast<size_t>(shape.size));
    for (int rank = 0; rank < shape.size; ++rank)
      before.push_back(world.position(rank));
    world.GoOnUntilQuiet();
    bool all_done = true;
    for (int rank = 0; rank < shape.size; ++rank) {
      const auto r = static_cast<size_t>(rank);
      all_done = all_done && world.Done(rank);
      if (stuck[r]) {
        ASSERT_EQ(world.position(rank), before[r]) << "rank " << rank << " went on";
      }
    }
    if (!disturbed) {
      ASSERT_TRUE(all_done);
    }
    innocent += all_done ? 1 : 0;

    // When nothing moves any more, those who wait for one another are found.
    shown = world.Shown(nullptr);
    stuck = FindStuck(shown, shape);
    bool waits = false;
    bool ended_early = false;
    for (int rank = 0; rank < shape.size; ++rank) {
      waits = waits || shown[static_cast<size_t>(rank)].waits;
      ended_early = ended_early || world.Done(rank);
    }
    const bool any = std::count(stuck.begin(), stuck.end(), true) > 0;
    if (!waits) {
      ASSERT_FALSE(any);
    }
    // A rank that is through with everything is not stuck, and holds up who needs it.
    if (waits && !ended_early) {
      ASSERT_TRUE(any);
    }
    if (!any) continue;
    ++found;
    const std::vector<int> cycle = FindCycle(shown, shape, stuck);
    ASSERT_GE(cycle.size(), 2u);
    for (size_t i = 0; i < cycle.size(); ++i) {
      const auto r = static_cast<size_t>(cycle[i]);
      const auto next = static_cast<size_t>(cycle[(i + 1) % cycle.size()]);
      const auto channel = static_cast<size_t>(shown[r].channel);
      ASSERT_TRUE(stuck[r]);
      ASSERT_TRUE(Meet(shown[r].channel, shape, cycle[i], cycle[(i + 1) % cycle.size()]));
      ASSERT_LT(shown[next].channels[channel].started, shown[r].number);
    }
  }
  EXPECT_GT(found, 100) << "seeds from " << first_seed;
  EXPECT_GT(innocent, 500) << "seeds from " << first_seed;
}

RankWait Waits(ContextGroup channel, uint64_t number) {
  RankWait wait{.waits = true, .channel = channel, .number = number};
  wait.channels[static_cast<size_t>(channel)] = {number, number - 1};
  return wait;
}

TEST(Stuck, NamesTheRankThatWaitsElsewhere) {
  std::vector<RankWait> waits(4, Waits(ContextGroup::kGather, 7));
  waits[2] = Waits(ContextGroup::kMesh, 3);
  EXPECT_EQ(FindOutlier(waits), 2);
  waits[1] = Waits(ContextGroup::kMesh, 3);
  EXPECT_EQ(FindOutlier(waits), -1);
  waits[1] = Waits(ContextGroup::kMesh, 4);
  EXPECT_EQ(FindOutlier(waits), -1);
  EXPECT_EQ(FindOutlier({Waits(ContextGroup::kGather, 7), Waits(ContextGroup::kMesh, 3)}), -1);
}

TEST(Stuck, IsNobodyWhileOneComputesOrMayBeAnswered) {
  const MeshShape shape{3, 3};
  std::vector<RankWait> waits = {Waits(ContextGroup::kGather, 1), Waits(ContextGroup::kMesh, 1),
                                 RankWait{}};
  EXPECT_EQ(FindStuck(waits, shape), (std::vector<bool>{true, true, false}));
  // The end of something else may make rank 1 gather.
  waits[1].channels[static_cast<size_t>(ContextGroup::kInnerGather)] = {1, 0};
  EXPECT_EQ(FindStuck(waits, shape), (std::vector<bool>{true, true, false}))
      << "rank 0 has not started that";
  waits[0].channels[static_cast<size_t>(ContextGroup::kInnerGather)] = {1, 1};
  EXPECT_EQ(FindStuck(waits, shape), (std::vector<bool>{false, false, false}))
      << "only rank 2, which computes, has not";
  waits[0].channels[static_cast<size_t>(ContextGroup::kInnerGather)] = {0, 0};
  waits[1].waits = false;
  EXPECT_EQ(FindStuck(waits, shape), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace weft::stuck_test
