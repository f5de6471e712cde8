// Stable views under random programs: what comes of them is right, and nothing moves.
//
// The seed is printed with a failure.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/shard/stable_views.h"

namespace weft::stable_views_random_test {
namespace {

using Kind = Event::Kind;
using Random = std::mt19937_64;

int Pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<uint64_t>(count));
}

// One of several uses at a time: by forward, or by unshard_start.
class Uses {
 public:
  Uses(Context& context, const std::vector<std::vector<float>>& values)
      : context_(context), values_(values), by_(values.size(), kNone) {}

  // Begins to use the unit, if it is not used, or ends that. Counts what is refused.
  absl::Status Toggle(int unit, bool forward) {
    int& by = by_[static_cast<size_t>(unit)];
    ExpectValues();
    if (by != kNone) {
      const bool of_forward = by == kForward;
      by = kNone;
      return of_forward ? context_.PostForward(unit) : context_.Reshard(unit);
    }
    const absl::Status begun = forward ? context_.PreForward(unit) : context_.UnshardStart(unit);
    if (ResultOf(begun) == WEFT_BAD_STATE) {
      EXPECT_NE(begun.message().find("is in use, and it has the place"), absl::string_view::npos)
          << begun;
      ++refused_;
      ExpectValues();
      return absl::OkStatus();
    }
    WEFT_RETURN_IF_ERROR(begun);
    if (!forward) WEFT_RETURN_IF_ERROR(context_.UnshardWait(unit));
    by = forward ? kForward : kUnshard;
    ExpectValues();
    return absl::OkStatus();
  }

  absl::Status End() {
    for (size_t unit = 0; unit < by_.size(); ++unit) {
      if (by_[unit] != kNone) WEFT_RETURN_IF_ERROR(Toggle(static_cast<int>(unit), false));
    }
    return absl::OkStatus();
  }

  int refused() const { return refused_; }

 private:
  enum By { kNone, kForward, kUnshard };

  void ExpectValues() {
    for (size_t unit = 0; unit < by_.size(); ++unit) {
      if (by_[unit] == kNone) continue;
      const absl::StatusOr<ParamView> view = context_.View(static_cast<int>(unit));
      ASSERT_TRUE(view.ok()) << view.status();
      const auto* const data = static_cast<const float*>(view->data);
      EXPECT_TRUE(std::equal(values_[unit].begin(), values_[unit].end(), data)) << "unit " << unit;
      const auto [at, first] = addresses_.emplace(unit, data);
      EXPECT_EQ(at->second, data) << "unit " << unit;
    }
  }

  Context& context_;
  const std::vector<std::vector<float>>& values_;
  std::vector<int> by_;  // by unit
  std::map<size_t, const float*> addresses_;
  int refused_ = 0;
};

// Whatever is used together: it is refused on all ranks or right on all of them, and nothing moves.
TEST(StableViewsAtRandom, OfRandomMeetingsAreRightOrRefused) {
  int refused = 0;
  for (uint64_t seed = 1; seed <= (kSampled ? 10 : 25); ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    const int ranks = 1 + static_cast<int>(seed % 3);
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          Random random(Mix(seed));
          const int count = 4 + Pick(random, 4);
          std::vector<ExactUnit> units;
          const weft_shard_preset_t presets[] = {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_GRAD_OP,
                                                 WEFT_SHARD_FRACTION};
          const weft_shard_preset_t preset = presets[Pick(random, 3)];
          for (int unit = 0; unit < count; ++unit)
            units.push_back({.placement = PlacementOf(preset), .counts = {1 + Pick(random, 500)}});
          ContextOptions options = OptionsOf(WEFT_SHARD_VIEWS_STABLE);
          options.prefetch = Pick(random, 3);
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
          ExactModel model(*context, units, rank, ranks);
          WEFT_RETURN_IF_ERROR(model.Finalize().status());
          std::vector<std::vector<float>> values;
          for (int unit = 0; unit < count; ++unit) {
            values.emplace_back(static_cast<size_t>(units[static_cast<size_t>(unit)].counts[0]));
            WEFT_RETURN_IF_ERROR(context->Read(unit, values.back().data()));
          }
          if (Pick(random, 2) == 0) {
            WEFT_RETURN_IF_ERROR(model.Eval(ScriptOf(Declared(count), {})).status());
          }
          Uses uses(*context, values);
          for (int step = 0; step < 6; ++step) {
            // The same calls as before, now and then.
            const uint64_t tag = static_cast<uint64_t>(step / 2);
            Random calls(Mix(seed * 10 + tag));
            WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 1 + tag));
            WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
            for (int call = 0; call < 25; ++call) {
              const int unit = Pick(calls, count);
              WEFT_RETURN_IF_ERROR(uses.Toggle(unit, Pick(calls, 2) == 0));
            }
            WEFT_RETURN_IF_ERROR(uses.End());
            WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
            if (Pick(random, 4) > 0) WEFT_RETURN_IF_ERROR(context->Finish().status());
            WEFT_RETURN_IF_ERROR(context->StepEnd());
          }
          if (rank == 0) refused += uses.refused();
          return absl::OkStatus();
        }));
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 0);
}

// Forward and backward in any order. `meets`: units are unsharded by hand while others are used.
Script RandomScript(Random& random, int units, bool train, bool meets) {
  Script script;
  const int microbatches = 1 + Pick(random, 2);
  for (int m = 0; m < microbatches; ++m) {
    Script body;
    const std::vector<int> forward = Shuffled(static_cast<size_t>(units), random());
    const std::vector<int> backward = Shuffled(static_cast<size_t>(units), random());
    for (const int unit : forward) {
      if (Pick(random, 6) == 0)
        body = Joined({body, {{Kind::kUnshard, unit}, {Kind::kReshard, unit}}});
      for (int times = 1 + Pick(random, 5) / 4; times > 0; --times)
        body = Joined({body, {{Kind::kPreForward, unit}, {Kind::kPostForward, unit}}});
    }
    for (const int unit : train ? backward : std::vector<int>()) {
      const auto runs = std::count(body.begin(), body.end(), Event{Kind::kPreForward, unit});
      for (int times = 0; times < static_cast<int>(runs); ++times)
        body = Joined({body, {{Kind::kPreBackward, unit}, {Kind::kPostBackward, unit}}});
    }
    for (int unit = 0; meets && unit < units; ++unit) {
      if (Pick(random, 3) != 0 ||
          std::count(body.begin(), body.end(), Event{Kind::kUnshard, unit}) > 0) {
        continue;
      }
      const int begin = Pick(random, static_cast<int>(body.size()) + 1);
      body.insert(body.begin() + begin, Event{Kind::kUnshard, unit});
      const int end = begin + 1 + Pick(random, static_cast<int>(body.size()) - begin);
      body.insert(body.begin() + end, Event{Kind::kReshard, unit});
    }
    script.push_back({Kind::kMicrobatchBegin, m == microbatches - 1 ? 1 : 0});
    script = Joined({script, body, {{Kind::kMicrobatchEnd, 0}}});
  }
  script.push_back({Kind::kFinish, 0});
  return script;
}

// Sums have one right value, whatever the views: ExactModel compares with it.
void ExpectStable(uint64_t seed, weft_shard_views_t views) {
  Random random(Mix(seed));
  const int ranks = 1 + Pick(random, 4);
  const bool replicas = ranks == 4;
  std::vector<ExactUnit> units(static_cast<size_t>(3 + Pick(random, 5)));
  const bool mixed = Pick(random, 2) == 0;
  const int preset = Pick(random, 8);
  for (ExactUnit& unit : units) {
    Placement placement =
        PlacementOf(static_cast<weft_shard_preset_t>(mixed ? Pick(random, 8) : preset));
    if (!replicas && (placement.replicated || placement.inner_part)) {
      placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
    }
    unit = {.placement = placement, .counts = {1 + Pick(random, 600), Pick(random, 600)}};
  }
  const int count = static_cast<int>(units.size());
  ContextOptions options = OptionsOf(views);
  options.prefetch = Pick(random, 4);
  options.overlap = Pick(random, 4) != 0;
  options.microbatches = 1 + Pick(random, 2);
  options.accumulation = static_cast<weft_shard_accumulation_t>(Pick(random, 3));
  std::vector<Script> scripts;
  for (int i = 0; i < 3; ++i)
    scripts.push_back(RandomScript(random, count, true, views != WEFT_SHARD_VIEWS_STABLE));
  scripts.push_back(RandomScript(random, count, false, views != WEFT_SHARD_VIEWS_STABLE));
  std::vector<int> order;
  for (int i = 0; i < 8; ++i)
    order.push_back(Pick(random, 4));
  const bool tags = Pick(random, 2) == 0;
  SCOPED_TRACE(StrCat("seed ", seed, " ", NameOf(views), ", ", ranks, " ranks, ", count,
                      " units, prefetch ", options.prefetch));
  const std::vector<int> axes = replicas ? std::vector<int>{2, 2} : std::vector<int>{};
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, axes));
    ExactModel model(*context, units, rank, ranks);
    Addresses addresses;
    addresses.Watch(model);
    WEFT_RETURN_IF_ERROR(model.Finalize().status());
    for (const int i : order) {
      const auto s = static_cast<size_t>(i);
      const uint64_t tag = tags ? s : 0;
      const absl::Status status =
          i == 3 ? model.Eval(scripts[s], tag).status() : model.Train(scripts[s], tag).status();
      WEFT_RETURN_IF_ERROR(status);
    }
    EXPECT_EQ(addresses.moved(), 0);
    return model.ExpectWeights();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
}

TEST(StableViewsAtRandom, OfRandomProgramsStayAndSumsAreRight) {
  for (uint64_t seed = 1; seed <= (kSampled ? 10 : 30); ++seed) {
    for (const weft_shard_views_t views : {WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART})
      ExpectStable(seed, views);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::stable_views_random_test
