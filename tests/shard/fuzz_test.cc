// Everything at once: units of mixed presets, places, wires and cuts, random orders of calls with recomputing and
// unsharding, any accumulation, prefetch and overlap, ranks that dawdle. Gradients are small integers, so the
// sums have one right value.
//
// The seed is printed with a failure.
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::fuzz_test {
namespace {

using Kind = Event::Kind;
using Random = std::mt19937_64;

int Pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<uint64_t>(count));
}

bool OneIn(Random& random, int count) {
  return Pick(random, count) == 0;
}

void Use(Script& script, int unit) {
  script.push_back({Kind::kPreForward, unit});
  script.push_back({Kind::kPostForward, unit});
}

// Forward and backward of most units, in some order, some recomputed, some unsharded for some of the time.
Script RandomMicrobatch(Random& random, int units, bool train) {
  std::vector<int> forward = Shuffled(static_cast<size_t>(units), random());
  if (OneIn(random, 2)) std::sort(forward.begin(), forward.end());
  if (OneIn(random, 4)) forward.pop_back();
  std::vector<int> backward(forward.rbegin(), forward.rend());
  if (OneIn(random, 3)) std::shuffle(backward.begin(), backward.end(), random);
  if (OneIn(random, 5) && !backward.empty()) backward.pop_back();
  if (!train) backward.clear();
  Script script;
  for (const int unit : forward)
    Use(script, unit);
  for (const int unit : backward) {
    script.push_back({Kind::kPreBackward, unit});
    if (OneIn(random, 4)) Use(script, unit);
    script.push_back({Kind::kPostBackward, unit});
  }
  for (int unit = 0; unit < units; ++unit) {
    if (!OneIn(random, 3)) continue;
    const int begin = Pick(random, static_cast<int>(script.size()) + 1);
    script.insert(script.begin() + begin, Event{Kind::kUnshard, unit});
    const int end = begin + 1 + Pick(random, static_cast<int>(script.size()) - begin);
    script.insert(script.begin() + end, Event{Kind::kReshard, unit});
  }
  return script;
}

Script RandomScript(Random& random, int units, int microbatches, bool train) {
  Script script;
  for (int m = 0; m < microbatches; ++m) {
    script.push_back({Kind::kMicrobatchBegin, m == microbatches - 1 ? 1 : 0});
    const Script body = RandomMicrobatch(random, units, train);
    script.insert(script.end(), body.begin(), body.end());
    script.push_back({Kind::kMicrobatchEnd, 0});
  }
  script.push_back({Kind::kFinish, 0});
  return script;
}

// A preset, or places that go together. Without replicas nothing is cut along a last axis.
Placement RandomPlacement(Random& random, bool replicas) {
  Placement placement = PlacementOf(static_cast<weft_shard_preset_t>(Pick(random, 8)));
  if (!replicas && (placement.replicated || placement.inner_part)) {
    placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
  }
  const auto place = [&] {
    return static_cast<weft_shard_place_t>(Pick(random, replicas ? 4 : 3));
  };
  for (int tries = OneIn(random, 4) ? 20 : 0; tries > 0; --tries) {
    const Places places{place(), place(), place(), place()};
    const absl::StatusOr<Placement> replaced = Replace(placement, places);
    if (!replaced.ok()) continue;
    placement = *replaced;
    break;
  }
  placement.wire = static_cast<weft_shard_wire_t>(Pick(random, 3));
  placement.cut = static_cast<CutRule>(Pick(random, 3));
  return placement;
}

std::vector<ExactUnit> RandomUnits(Random& random, bool replicas) {
  std::vector<ExactUnit> units(static_cast<size_t>(2 + Pick(random, 5)));
  for (ExactUnit& unit : units) {
    unit = {.placement = RandomPlacement(random, replicas), .counts = {}};
    for (int params = 1 + Pick(random, 3); params > 0; --params)
      unit.counts.push_back(Pick(random, 700));
  }
  return units;
}

ContextOptions RandomOptions(Random& random) {
  ContextOptions options;
  options.average = false;
  options.limits = {.bucket_bytes = size_t{512} << Pick(random, 6), .first_bucket_bytes = 512};
  options.accumulation = static_cast<weft_shard_accumulation_t>(Pick(random, 3));
  options.overlap = !OneIn(random, 4);
  options.prefetch = Pick(random, 5);
  options.microbatches = 1 + Pick(random, 3);
  options.memory.poison = OneIn(random, 2);
  options.verify_steps = Pick(random, 3);
  if (OneIn(random, 3)) options.views = WEFT_SHARD_VIEWS_APART;
  return options;
}

// Steps of three kinds and evaluations between them, in some order.
void ExpectRightSums(uint64_t seed) {
  Random random(Mix(seed));
  const int ranks = std::vector<int>{2, 3, 4, 4, 8}[static_cast<size_t>(Pick(random, 5))];
  const bool replicas = ranks % 2 == 0 && ranks > 2;
  const std::vector<ExactUnit> units = RandomUnits(random, replicas);
  const int count = static_cast<int>(units.size());
  const ContextOptions options = RandomOptions(random);
  std::string what = StrCat("seed ", seed, ", ", ranks, " ranks");
  for (const ExactUnit& unit : units)
    what += StrCat("; ", PlacesText(unit.placement));
  SCOPED_TRACE(what);
  std::vector<Script> scripts;
  for (int i = 0; i < 3; ++i)
    scripts.push_back(RandomScript(random, count, 1 + Pick(random, 3), /*train=*/true));
  const Script evaluation = RandomScript(random, count, 1, /*train=*/false);
  std::vector<int> order;
  for (int i = 0; i < 8; ++i)
    order.push_back(Pick(random, 3));
  const bool tags = OneIn(random, 2);
  const bool dawdle = OneIn(random, 2);
  const std::vector<int> axes = replicas ? std::vector<int>{ranks / 2, 2} : std::vector<int>{};
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, axes));
    ExactModel model(*context, units, rank, ranks);
    Random own(Mix(seed * 100 + static_cast<uint64_t>(rank)));
    model.pause = [&] {
      if (!dawdle || !OneIn(own, 6)) return;
      std::this_thread::sleep_for(std::chrono::microseconds(Pick(own, 800)));
    };
    WEFT_RETURN_IF_ERROR(model.Finalize().status());
    for (size_t i = 0; i < order.size(); ++i) {
      const auto kind = static_cast<size_t>(order[i]);
      WEFT_RETURN_IF_ERROR(model.Train(scripts[kind], tags ? kind : 0).status());
      if (i % 3 == 1) WEFT_RETURN_IF_ERROR(model.Eval(evaluation).status());
    }
    return model.ExpectWeights();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
}

TEST(Fuzz, AnythingTogetherGivesTheRightSums) {
  const uint64_t seeds = kSampled ? 8 : 80;
  for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed)
    ExpectRightSums(seed);
}

}  // namespace
}  // namespace weft::fuzz_test
