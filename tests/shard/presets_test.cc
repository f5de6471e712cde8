// Every preset, bit for bit: what is whole when, the gradients that each rank keeps, and the params after
// updates of own parts, against a single-threaded reference.
#include <string>
#include <tuple>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/case_sample.h"

namespace weft::presets_test {
namespace {

constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                            WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD};

using Values = std::vector<Elements>;  // by param

Values InitialValues(const std::vector<ModelParam>& model, const Scenario& scenario) {
  Values values(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    for (size_t i = 0; i < model[p].count(); ++i) {
      values[p].push_back(scenario.Gradient(model[p].dtype, 1000, 0, 0, static_cast<int>(p), i));
    }
  }
  return values;
}

uint64_t Sum(weft_dtype_t dtype, uint64_t a, uint64_t b) {
  return ReduceReference(dtype, WEFT_SUM, {a, b}, 1);
}

// What every element is after "w = w + gradient", for all steps.
std::vector<Values> ExpectedParams(const std::vector<ModelParam>& model, const Scenario& scenario) {
  std::vector<Values> all = {InitialValues(model, scenario)};
  for (int step = 0; step < scenario.steps; ++step) {
    Values next = all.back();
    const std::vector<Elements> gradients = ExpectedGradients(model, scenario, step);
    for (size_t p = 0; p < model.size(); ++p) {
      for (size_t i = 0; i < gradients[p].size(); ++i)
        next[p][i] = Sum(model[p].dtype, next[p][i], gradients[p][i]);
    }
    all.push_back(next);
  }
  return all;
}

absl::Status LoadAll(Context& context, const std::vector<ModelParam>& model, const Values& values,
                     int rank, int ranks) {
  for (size_t p = 0; p < model.size(); ++p) {
    std::vector<char> memory(model[p].count() * DtypeSize(model[p].dtype));
    WriteElements(model[p].dtype, values[p], memory.data());
    const int root = p % 2 == 0 ? Context::kEveryRank : static_cast<int>(p) % ranks;
    const bool gives = root == Context::kEveryRank || root == rank;
    WEFT_RETURN_IF_ERROR(context.Load(static_cast<int>(p), gives ? memory.data() : nullptr, root));
  }
  return absl::OkStatus();
}

absl::Status ExpectParams(Context& context, const std::vector<ModelParam>& model,
                          const Values& values) {
  for (size_t p = 0; p < model.size(); ++p) {
    std::vector<char> memory(model[p].count() * DtypeSize(model[p].dtype));
    WEFT_RETURN_IF_ERROR(context.Read(static_cast<int>(p), memory.data()));
    EXPECT_EQ(ReadElements(model[p].dtype, memory.data(), model[p].count()), values[p])
        << model[p].name;
  }
  return absl::OkStatus();
}

// Compares this rank's parts of the gradients, then adds them to its parts of the params.
absl::Status UpdateOwnParts(Context& context, const std::vector<ModelParam>& model,
                            const Values& gradients) {
  for (size_t p = 0; p < model.size(); ++p) {
    if (model[p].frozen) continue;
    WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(static_cast<int>(p)));
    const auto& [view, begin] = part;
    if (view.count == 0) continue;
    const weft_dtype_t dtype = view.dtype;
    const auto first = gradients[p].begin() + static_cast<std::ptrdiff_t>(begin);
    const Elements expected(first, first + static_cast<std::ptrdiff_t>(view.count));
    const Elements own = ReadElements(dtype, view.grad, view.count);
    EXPECT_EQ(own, expected) << model[p].name << " from " << begin;
    Elements weights = ReadElements(dtype, view.data, view.count);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = Sum(dtype, weights[i], own[i]);
    WriteElements(dtype, weights, view.data);
  }
  return context.Updated();
}

struct Case {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  ContextOptions options;
  CutRule cut = CutRule::kElements;
  bool predictable = true;  // the order of calls is the declared one
  std::vector<int> axes = {};
  Places places = {};  // in place of the preset's
};

std::string NameOf(const Case& one, const Scenario& scenario) {
  return StrCat(PresetName(one.preset), ", ", scenario.ranks, " ranks, prefetch ",
                one.options.prefetch, one.options.overlap ? "" : ", no overlap", ", seed ",
                scenario.seed, ", ", scenario.microbatches, " micro-batches");
}

void ExpectReference(GroupKind kind, const Case& one, Scenario scenario) {
  SCOPED_TRACE(NameOf(one, scenario));
  const std::vector<ModelParam> model = SmallModel();
  const std::vector<int> units = UnitsOf(model);
  const std::vector<Values> params = ExpectedParams(model, scenario);
  std::vector<Values> gradients;
  for (int step = 0; step < scenario.steps; ++step)
    gradients.push_back(ExpectedGradients(model, scenario, step));
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    ContextOptions options = one.options;
    options.accumulation = scenario.accumulation;
    options.microbatches = scenario.microbatches;
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, one.axes));
    Placement placement = PlacementOf(one.preset);
    placement.cut = one.cut;
    placement.wire = scenario.wire;
    WEFT_ASSIGN_OR_RETURN(placement, Replace(placement, one.places));
    WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(LoadAll(*context, model, params[0], rank, scenario.ranks));
    for (int step = 0; step < scenario.steps; ++step) {
      Scenario own = scenario;
      own.in_use = [&](int unit) -> absl::Status {
        for (size_t p = 0; p < model.size(); ++p) {
          if (units[p] != unit) continue;
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(static_cast<int>(p)));
          EXPECT_EQ(ReadElements(view.dtype, view.data, view.count),
                    params[static_cast<size_t>(step)][p])
              << model[p].name << " in step " << step;
        }
        return absl::OkStatus();
      };
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                            RunStep(*context, model, own, rank, step));
      const bool gathers = one.preset != WEFT_SHARD_NO_SHARD;
      if (one.predictable && gathers) {
        EXPECT_EQ(result.replayed, 1) << "step " << step;
      }
      WEFT_RETURN_IF_ERROR(UpdateOwnParts(*context, model, gradients[static_cast<size_t>(step)]));
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return ExpectParams(*context, model, params.back());
  };
  ExpectAllOk(RunRanks(kind, scenario.ranks, body));
}

class PresetsTest : public testing::TestWithParam<std::tuple<GroupKind, int>> {
 protected:
  void SetUp() override {
    if (LeftOut(kind(), ranks())) GTEST_SKIP() << "sampled";
  }

  GroupKind kind() const { return std::get<0>(GetParam()); }

  int ranks() const { return std::get<1>(GetParam()); }

  // So that every case is taken with some kind of group and number of ranks.
  uint64_t seed() const { return static_cast<uint64_t>(kind()) + static_cast<uint64_t>(ranks()); }
};

constexpr BucketLimits kSmallBuckets = {.bucket_bytes = 4096, .first_bucket_bytes = 1024};

TEST_P(PresetsTest, GiveTheSameBits) {
  for (const weft_shard_preset_t preset : kPresets) {
    ExpectReference(kind(), {.preset = preset, .options = {.limits = kSmallBuckets}},
                    {.ranks = ranks(), .steps = 3, .missing_percent = 10});
  }
}

TEST_P(PresetsTest, GiveTheSameBitsForAnyPrefetchAndWithoutOverlap) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD}) {
    for (const int prefetch : {0, 2, 4}) {
      ExpectReference(
          kind(), {.preset = preset, .options = {.overlap = prefetch != 2, .prefetch = prefetch}},
          {.ranks = ranks()});
    }
  }
}

TEST_P(PresetsTest, AccumulateInBothWays) {
  const test::CaseSample sample({.every = 3, .sanitized = 7}, seed());
  size_t number = 0;
  for (const weft_shard_preset_t preset : kPresets) {
    for (const weft_shard_accumulation_t accumulation :
         {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      if (!sample.Takes(number++)) continue;
      ExpectReference(kind(), {.preset = preset, .options = {.limits = kSmallBuckets}},
                      {.ranks = ranks(),
                       .microbatches = 3,
                       .missing_percent = 20,
                       .accumulation = accumulation});
    }
  }
  sample.Print("presets and accumulations", number);
}

TEST_P(PresetsTest, ReduceFloat32In16Bits) {
  const test::CaseSample sample({.every = 3, .sanitized = 7}, seed());
  size_t number = 0;
  for (const weft_shard_wire_t wire : {WEFT_SHARD_WIRE_BFLOAT16, WEFT_SHARD_WIRE_FLOAT16}) {
    for (const weft_shard_preset_t preset : kPresets) {
      if (!sample.Takes(number++)) continue;
      const bool every = preset == WEFT_SHARD_ZERO1 || preset == WEFT_SHARD_FULL_SHARD;
      ExpectReference(
          kind(), {.preset = preset, .options = {.limits = kSmallBuckets, .overlap = !every}},
          {.ranks = ranks(),
           .microbatches = 2,
           .missing_percent = 10,
           .accumulation = every ? WEFT_SHARD_REDUCE_EVERY : WEFT_SHARD_LOCAL_THEN_REDUCE,
           .wire = wire});
    }
  }
  sample.Print("presets and wires", number);
}

TEST_P(PresetsTest, CutBetweenParams) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
    ExpectReference(kind(), {.preset = preset, .cut = CutRule::kParams}, {.ranks = ranks()});
  }
}

// Parts of any number of ranks.
TEST(Presets, PartsBetweenForwardAndBackwardGiveTheSameBits) {
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{1, 2}, {2, 1}, {2, 2}, {2, 3}, {1, 4}, {2, 4}}) {
    if (kSampled && axes[0] * axes[1] != 4) continue;
    for (const int prefetch : {0, 1, 4}) {
      ExpectReference(GroupKind::kLocal,
                      {.preset = WEFT_SHARD_HPZ,
                       .options = {.overlap = prefetch != 0, .prefetch = prefetch},
                       .axes = axes},
                      {.ranks = axes[0] * axes[1],
                       .microbatches = prefetch == 4 ? 2 : 1,
                       .missing_percent = 10});
    }
  }
}

// Replicas of 2^k ranks, of any number.
TEST(Presets, ReplicasGiveTheSameBits) {
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{
           {1, 2}, {2, 1}, {2, 2}, {3, 2}, {1, 4}, {2, 4}, {4, 2}, {2, 2, 2}, {3, 1, 2}}) {
    int ranks = 1;
    for (const int size : axes)
      ranks *= size;
    if (kSampled && ranks != 4 && ranks != 6) continue;
    for (const weft_shard_accumulation_t accumulation :
         {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      for (const int prefetch : {0, 1, 3}) {
        ExpectReference(GroupKind::kLocal,
                        {.preset = WEFT_SHARD_HYBRID_SHARD,
                         .options = {.overlap = prefetch != 0, .prefetch = prefetch},
                         .axes = axes},
                        {.ranks = ranks,
                         .microbatches = 2,
                         .missing_percent = 10,
                         .accumulation = accumulation});
      }
    }
  }
}

TEST(Presets, ReplicasReduceFloat32In16Bits) {
  for (const weft_shard_wire_t wire : {WEFT_SHARD_WIRE_BFLOAT16, WEFT_SHARD_WIRE_FLOAT16}) {
    for (const std::vector<int>& axes : std::vector<std::vector<int>>{{2, 2}, {3, 2}, {1, 4}}) {
      ExpectReference(GroupKind::kLocal, {.preset = WEFT_SHARD_HYBRID_SHARD, .axes = axes},
                      {.ranks = axes[0] * axes[1], .missing_percent = 10, .wire = wire});
    }
  }
}

// Sums within the replica in every micro-batch, across replicas in the last one.
TEST(Presets, ReplicasMayGoAcrossInTheLastMicrobatch) {
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{1, 2}, {2, 1}, {2, 2}, {3, 2}, {2, 4}}) {
    for (const weft_shard_wire_t wire : {WEFT_SHARD_WIRE_GRADIENTS, WEFT_SHARD_WIRE_BFLOAT16}) {
      for (const int microbatches : {1, 2, 4}) {
        ExpectReference(GroupKind::kLocal,
                        {.preset = WEFT_SHARD_HYBRID_SHARD,
                         .options = {.overlap = microbatches != 2},
                         .axes = axes},
                        {.ranks = axes[0] * axes[1],
                         .microbatches = microbatches,
                         .missing_percent = 10,
                         .accumulation = WEFT_SHARD_INNER_EVERY_OUTER_LAST,
                         .wire = wire,
                         .replica = axes[1]});
      }
    }
  }
}

TEST(Presets, WithoutReplicasGoingAcrossLastIsReducingEveryTime) {
  for (const weft_shard_preset_t preset : kPresets) {
    ExpectReference(GroupKind::kLocal, {.preset = preset, .options = {.limits = kSmallBuckets}},
                    {.ranks = 3,
                     .microbatches = 3,
                     .missing_percent = 10,
                     .accumulation = WEFT_SHARD_INNER_EVERY_OUTER_LAST});
  }
}

// The last step of an epoch has what is left: fewer micro-batches than planned, or more.
TEST(Presets, StepsMayHaveAnyNumberOfMicrobatches) {
  const std::vector<ModelParam> model = SmallModel();
  for (const weft_shard_preset_t preset : kPresets) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      SCOPED_TRACE(PresetName(preset));
      const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.limits = kSmallBuckets,
                                                                .accumulation = accumulation,
                                                                .microbatches = 3}));
        WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        int step = 0;
        for (const int microbatches : {3, 1, 3, 2, 4, 1}) {
          const Scenario scenario{.ranks = 3,
                                  .microbatches = microbatches,
                                  .missing_percent = 10,
                                  .accumulation = accumulation};
          WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
          WEFT_RETURN_IF_ERROR(
              UpdateOwnParts(*context, model, ExpectedGradients(model, scenario, step)));
          WEFT_RETURN_IF_ERROR(context->StepEnd());
          ++step;
        }
        return absl::OkStatus();
      };
      ExpectAllOk(RunRanks(GroupKind::kLocal, 3, body));
    }
  }
}

// What no preset says: whole params, or params that are kept whole, of replicas.
TEST(Presets, PlacesOfTheirOwnGiveTheSameBits) {
  constexpr auto kWhole = WEFT_SHARD_PLACE_WHOLE;
  constexpr auto kInner = WEFT_SHARD_PLACE_SHARDED_INNER;
  constexpr auto kAll = WEFT_SHARD_PLACE_SHARDED;
  for (const Places& places :
       {Places{kInner, kWhole, kInner, kInner}, Places{kWhole, kWhole, kInner, kInner},
        Places{kAll, kInner, kAll, kAll}, Places{kWhole, kWhole, kAll, kAll},
        Places{kAll, kWhole, kAll, kAll}}) {
    for (const std::vector<int>& axes : std::vector<std::vector<int>>{{2, 2}, {3, 2}, {1, 4}}) {
      ExpectReference(
          GroupKind::kLocal,
          {.preset = WEFT_SHARD_NO_SHARD, .predictable = false, .axes = axes, .places = places},
          {.ranks = axes[0] * axes[1], .microbatches = 2, .missing_percent = 10});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , PresetsTest, testing::Combine(testing::ValuesIn(kGroupKinds), testing::ValuesIn(kRankSet)),
    [](const auto& info) {
      return StrCat(GroupKindName(std::get<0>(info.param)), std::get<1>(info.param));
    });

}  // namespace
}  // namespace weft::presets_test
