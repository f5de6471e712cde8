// The gradient norm beside one in float64: under every preset, of every type that has an optimizer, from the least
// denormals to the largest numbers.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::gradient_norm_test {
namespace {

constexpr int kRanks = 4;
// What is promised; all of it but the last root and division is exact, so far less is seen.
constexpr double kBound = 1e-6;

std::vector<ModelParam> Model(weft_dtype_t dtype) {
  return {
      {"embed", "embed.tokens", {19, 53}, dtype}, {"embed", "embed.none", {0, 5}, dtype},
      {"block", "block.weight", {61, 37}, dtype}, {"block", "block.scale", {}, dtype},
      {"head", "head.bias", {701}, dtype},
  };
}

// By step: the magnitude of gradients, of which the type holds what it can; 0 mixes all of them.
std::vector<double> Magnitudes(weft_dtype_t grad_dtype) {
  if (grad_dtype == WEFT_FLOAT16) return {0x1p-24, 1e-7, 1e-5, 1e-3, 1, 1e3, 2e4, 0};
  const double least = grad_dtype == WEFT_BFLOAT16 ? 0x1p-133 : 0x1p-149;
  return {least, 3 * least, 1e-39, 1e-38, 1e-30, 1e-20, 1e-6, 1, 1e6, 1e20, 1e30, 1e38, 0};
}

// The gradients of one step as bits, by param. Each element is the only rank's that has one there, so that their sum
// over ranks is known without adding.
std::vector<Elements> MakeGradients(weft_dtype_t grad_dtype, size_t step) {
  const std::vector<double> magnitudes = Magnitudes(grad_dtype);
  std::mt19937 random(TestSeed() + static_cast<uint32_t>(step));
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<Elements> gradients;
  for (const ModelParam& param : Model(WEFT_FLOAT32)) {
    Elements& elements = gradients.emplace_back();
    for (size_t i = 0; i < param.count(); ++i) {
      const double magnitude =
          magnitudes[step] != 0 ? magnitudes[step] : magnitudes[random() % (magnitudes.size() - 1)];
      elements.push_back(EncodeFloat(grad_dtype, static_cast<float>(uniform(random) * magnitude)));
    }
  }
  return gradients;
}

double NormInFloat64(weft_dtype_t grad_dtype, const std::vector<Elements>& gradients) {
  double squares = 0;
  for (const Elements& elements : gradients) {
    for (const uint64_t bits : elements) {
      const double value = DecodeFloat(grad_dtype, bits);
      squares += value * value;
    }
  }
  return std::sqrt(squares);
}

struct Setting {
  weft_dtype_t dtype = WEFT_FLOAT32;
  bool float32_gradients = false;
  double loss_scale = 1;
  double norm_max = 0;

  weft_dtype_t grad_dtype() const { return float32_gradients ? WEFT_FLOAT32 : dtype; }
};

absl::Status RunBackward(Context& context, const std::vector<ModelParam>& model, int rank,
                         const std::vector<Elements>& gradients) {
  const std::vector<int> units = UnitsOf(model);
  return RunGradientStep(context, model, [&](int unit) -> absl::Status {
    for (size_t p = 0; p < model.size(); ++p) {
      if (units[p] != unit || gradients[p].empty()) continue;
      WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(static_cast<int>(p)));
      Elements own = gradients[p];
      for (size_t i = 0; i < own.size(); ++i) {
        if (static_cast<int>(Mix(i + p) % kRanks) != rank) own[i] = 0;
      }
      WriteElements(view.grad_dtype, own, view.grad);
    }
    return absl::OkStatus();
  });
}

absl::Status CompareNorms(std::shared_ptr<ProcessGroup> group, weft_shard_preset_t preset,
                          const Setting& setting, int rank) {
  const ContextOptions options{.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 1024},
                               .average = false};
  WEFT_ASSIGN_OR_RETURN(auto context,
                        MakeContext(std::move(group), options, SizesOfAxes(preset, kRanks)));
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(
      {.kind = WEFT_OPTIMIZER_SGD, .static_scale = setting.loss_scale, .threads = 2}));
  const std::vector<ModelParam> model = Model(setting.dtype);
  Placement placement = PlacementOf(preset);
  placement.float32_gradients = setting.float32_gradients;
  WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  for (size_t step = 0; step < Magnitudes(setting.grad_dtype()).size(); ++step) {
    const std::vector<Elements> gradients = MakeGradients(setting.grad_dtype(), step);
    WEFT_RETURN_IF_ERROR(RunBackward(*context, model, rank, gradients));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                          context->OptimizerStep(UpdateWith(0, setting.norm_max)));
    WEFT_RETURN_IF_ERROR(context->StepEnd());
    const double expected = NormInFloat64(setting.grad_dtype(), gradients) / setting.loss_scale;
    EXPECT_GT(expected, 0);
    EXPECT_LE(std::abs(result.grad_norm - expected), kBound * expected)
        << "step " << step << " on rank " << rank << ": " << result.grad_norm << ", in float64 "
        << expected;
    EXPECT_EQ(result.skipped, 0);
  }
  return absl::OkStatus();
}

TEST(GradientNorm, IsThatOfFloat64ForEveryPresetTypeAndMagnitude) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  const Setting settings[] = {
      {.dtype = WEFT_FLOAT32},
      {.dtype = WEFT_FLOAT32, .loss_scale = 1000, .norm_max = 1},
      {.dtype = WEFT_BFLOAT16},
      {.dtype = WEFT_BFLOAT16, .float32_gradients = true},
      {.dtype = WEFT_FLOAT16},
      {.dtype = WEFT_FLOAT16, .loss_scale = 65536, .norm_max = 1},
      {.dtype = WEFT_FLOAT16, .float32_gradients = true, .loss_scale = 65536},
  };
  for (const Setting& setting : settings) {
    for (const weft_shard_preset_t preset : kAllPresets) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", setting ", &setting - settings));
      ExpectAllOk(
          RunRanks(GroupKind::kLocal, kRanks, [&](int rank, std::shared_ptr<ProcessGroup> group) {
            return CompareNorms(std::move(group), preset, setting, rank);
          }));
    }
  }
}

}  // namespace
}  // namespace weft::gradient_norm_test
