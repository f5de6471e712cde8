// The norm of a model whose parts lie on different ranks: that of one context that has all of it,
// to the bit, for every preset; all parts skip together, and their loss scales move alike.
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/optimizer/norm_sum.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::parts_norm_test {
namespace {

constexpr int kSteps = 3;
constexpr size_t kParams = 8;

// Rank r of the job has part r mod `parts` of the model, and share r / `parts` of the data.
struct Cut {
  int data = 1;
  int parts = 1;

  int ranks() const { return data * parts; }
};

ModelParam ParamAt(size_t index, weft_dtype_t dtype) {
  const auto number = static_cast<int64_t>(index);
  return {.unit = StrCat("unit", index),
          .name = StrCat("w", index),
          .shape = {11 + 31 * number, 7 + number},
          .dtype = dtype};
}

// What `part` has; the last part has the first one's param 0 too, as a head does that is tied to
// the embedding.
std::vector<ModelParam> PartOf(int part, int parts, weft_dtype_t dtype) {
  std::vector<ModelParam> model;
  for (size_t i = 0; i < kParams; ++i) {
    if (static_cast<int>(i) % parts == part) model.push_back(ParamAt(i, dtype));
  }
  if (parts > 1 && part == parts - 1) {
    model.push_back(ParamAt(0, dtype));
    model.back().counted = false;
  }
  return model;
}

Elements Drawn(const ModelParam& param, weft_dtype_t dtype, uint64_t salt) {
  const uint64_t seed =
      Mix(salt + TestSeed()) + static_cast<uint64_t>(param.name.back()) * 1'000'003;
  Elements elements(param.count());
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto value = static_cast<float>(static_cast<int>(Mix(seed + i) % 2001) - 1000);
    elements[i] = EncodeFloat(dtype, value / 256);
  }
  return elements;
}

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  weft_dtype_t dtype = WEFT_FLOAT32;
  OptimizerConfig optimizer;
  int steps = kSteps;
  // Its gradients have one infinity in this step.
  int infinite_rank = -1;
  int infinite_step = -1;
};

// One rank's.
struct Outcome {
  std::vector<weft_shard_norm_t> norms;  // by step, as the next ones
  std::vector<weft_shard_update_result_t> results;
  std::vector<double> scales;  // after the step
  std::vector<std::map<std::string, Elements>> values;
};

absl::Status Step(Context& context, const std::vector<ModelParam>& model, ProcessGroup& parts,
                  int share, bool infinite, Outcome& outcome) {
  const uint64_t salt = 1000 + 100 * outcome.norms.size() + static_cast<uint64_t>(share);
  WEFT_RETURN_IF_ERROR(RunGradientStep(context, model, [&](int unit) -> absl::Status {
    const ModelParam& param = model[static_cast<size_t>(unit)];
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(unit));
    Elements gradient = Drawn(param, view.grad_dtype, salt);
    if (infinite && unit == 0)
      gradient[5] = EncodeFloat(view.grad_dtype, std::numeric_limits<float>::infinity());
    WriteElements(view.grad_dtype, gradient, view.grad);
    return absl::OkStatus();
  }));
  WEFT_ASSIGN_OR_RETURN(weft_shard_norm_t norm, context.optimizer().GradientNorm());
  WEFT_ASSIGN_OR_RETURN(norm, SumNorms(parts, norm));
  weft_shard_update_t update = UpdateWith(0.01, 0.25);
  update.norm = &norm;
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result, context.OptimizerStep(update));
  WEFT_RETURN_IF_ERROR(context.StepEnd());
  WEFT_ASSIGN_OR_RETURN(const double scale, context.optimizer().LossScale());
  WEFT_ASSIGN_OR_RETURN(const std::vector<Elements> values, ReadParams(context, model));
  outcome.norms.push_back(norm);
  outcome.results.push_back(result);
  outcome.scales.push_back(scale);
  std::map<std::string, Elements>& by_name = outcome.values.emplace_back();
  for (size_t p = 0; p < model.size(); ++p)
    by_name[model[p].name] = values[p];
  return absl::OkStatus();
}

absl::StatusOr<Outcome> RunPart(ProcessGroup& job, const Cut& cut, const Setting& setting) {
  const int part = job.rank() % cut.parts;
  const int share = job.rank() / cut.parts;
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> data, job.Split(part, share, {}));
  // In an order of its own in each, which changes nothing.
  const int key = share % 2 == 0 ? part : -part;
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> parts, job.Split(share, key, {}));
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(data, {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 1024}},
                  SizesOfAxes(setting.preset, cut.data)));
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(setting.optimizer));
  const std::vector<ModelParam> model = PartOf(part, cut.parts, setting.dtype);
  WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(setting.preset)));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  std::vector<Elements> values;
  for (const ModelParam& param : model)
    values.push_back(Drawn(param, param.dtype, 1));
  WEFT_RETURN_IF_ERROR(LoadParams(*context, model, values));
  Outcome outcome;
  for (int step = 0; step < setting.steps; ++step) {
    const bool infinite = job.rank() == setting.infinite_rank && step == setting.infinite_step;
    WEFT_RETURN_IF_ERROR(Step(*context, model, *parts, share, infinite, outcome));
  }
  return outcome;
}

// By rank.
std::vector<Outcome> RunCut(const Cut& cut, const Setting& setting) {
  std::vector<Outcome> outcomes(static_cast<size_t>(cut.ranks()));
  ExpectAllOk(RunRanks(GroupKind::kLocal, cut.ranks(),
                       [&](int rank, std::shared_ptr<ProcessGroup> job) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(outcomes[static_cast<size_t>(rank)],
                                               RunPart(*job, cut, setting));
                         return absl::OkStatus();
                       }));
  return outcomes;
}

bool Same(const weft_shard_norm_t& a, const weft_shard_norm_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

void ExpectSame(const Outcome& found, const Outcome& whole, int steps) {
  ASSERT_EQ(found.norms.size(), static_cast<size_t>(steps));
  for (size_t step = 0; step < found.norms.size(); ++step) {
    EXPECT_GT(whole.norms[step].norm, 1);
    EXPECT_TRUE(Same(found.norms[step], whole.norms[step]))
        << "step " << step << ": " << found.norms[step].norm << ", not " << whole.norms[step].norm;
    EXPECT_EQ(found.results[step].grad_norm, whole.results[step].grad_norm);
    for (const auto& [name, values] : found.values[step])
      EXPECT_EQ(values, whole.values[step].at(name)) << name << " after step " << step;
  }
}

constexpr Cut kCuts[] = {{1, 2}, {1, 3}, {1, 5}, {2, 2}, {2, 3}, {3, 2}, {4, 2}};

TEST(NormOfParts, IsThatOfOneContextUnderEveryPreset) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const int data : {1, 2, 3, 4}) {
    for (const weft_shard_preset_t preset : PresetsFor(data)) {
      const Setting setting{.preset = preset};
      const std::vector<Outcome> whole = RunCut({data, 1}, setting);
      for (const Cut& cut : kCuts) {
        if (cut.data != data) continue;
        SCOPED_TRACE(StrCat(PresetName(preset), ", ", data, " x ", cut.parts, " ranks"));
        for (const Outcome& outcome : RunCut(cut, setting))
          ExpectSame(outcome, whole[0], setting.steps);
      }
    }
  }
}

// One rank has one infinity: all parts skip, halve their scale, and go on as the whole model does.
TEST(NormOfParts, AnInfinityInOnePartSkipsAllAndTheirLossScalesMoveAlike) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const weft_shard_preset_t preset : PresetsFor(2)) {
    for (const int infinite_rank : {0, 1, 3, 5}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", rank ", infinite_rank));
      const std::vector<Outcome> outcomes = RunCut(
          {2, 3}, {.preset = preset,
                   .dtype = WEFT_FLOAT16,
                   .optimizer = {.dynamic_scale = true,
                                 .scale = {.initial = 1024, .growth_steps = 2, .hysteresis = 1},
                                 .nonfinite = WEFT_NONFINITE_SKIP},
                   .steps = 4,
                   .infinite_rank = infinite_rank,
                   .infinite_step = 1});
      for (size_t rank = 0; rank < outcomes.size(); ++rank) {
        SCOPED_TRACE(StrCat("on rank ", rank));
        const Outcome& outcome = outcomes[rank];
        ASSERT_EQ(outcome.results.size(), 4u);
        EXPECT_EQ(outcome.scales, (std::vector<double>{1024, 512, 512, 1024}));
        for (size_t step = 0; step < 4; ++step) {
          EXPECT_EQ(outcome.results[step].skipped, step == 1 ? 1 : 0);
          EXPECT_EQ(outcome.results[step].nonfinite, step == 1 ? 1 : 0);
          EXPECT_TRUE(Same(outcome.norms[step], outcomes[0].norms[step]));
        }
        EXPECT_EQ(outcome.values[1], outcome.values[0]);
        EXPECT_NE(outcome.values[2], outcome.values[1]);
      }
    }
  }
}

}  // namespace
}  // namespace weft::parts_norm_test
