// Muon beside AdamW: against its formula written out slowly in double, with the same bits under every preset and for any number of
// threads; what the caller's product is asked, how near the update is to orthonormal, and which params are refused.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::muon_test {
namespace {

using testing::HasSubstr;

constexpr double kRate = 0.01;
constexpr double kDecay = 0.1;
constexpr double kMomentum = 0.95;
constexpr double kNormMax = 0.5;

// Wide, high, square, of one row and of one element, empty and frozen; vectors between them are AdamW's.
std::vector<ModelParam> Model() {
  return {
      {"a", "a.wide", {24, 40}, WEFT_FLOAT32},
      {"a", "a.bias", {40}, WEFT_FLOAT32},
      {"b", "b.high", {70, 19}, WEFT_FLOAT32},
      {"b", "b.half", {31, 33}, WEFT_BFLOAT16},
      {"b", "b.norm", {33}, WEFT_FLOAT32, false, false},
      {"b", "b.none", {0, 4}, WEFT_FLOAT32},
      {"b", "b.base", {5, 5}, WEFT_FLOAT32, true},
      {"c", "c.one", {1, 1}, WEFT_FLOAT32},
      {"c", "c.row", {1, 200}, WEFT_FLOAT32},
      {"c", "c.square", {20, 20}, WEFT_FLOAT32, false, false},
  };
}

bool IsMuons(const ModelParam& param) {
  return param.shape.size() == 2;
}

// What the callback was asked, of one rank.
struct Products {
  size_t calls = 0;
  bool shapes_are_good = true;
};

// As weft's own: in the order of k.
void CountedProduct(const float* a, const float* b, float* c, size_t m, size_t n, size_t k,
                    void* user) {
  auto* const products = static_cast<Products*>(user);
  ++products->calls;
  products->shapes_are_good = products->shapes_are_good && m <= n && (k == m || n == m);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t at = 0; at < k; ++at)
        sum += a[i * k + at] * b[at * n + j];
      c[i * n + j] = sum;
    }
  }
}

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  int threads = 1;
  bool nesterov = true;
  bool own_product = false;
};

struct Outcome {
  std::vector<double> norms;
  std::vector<Elements> params;
  bool operator==(const Outcome&) const = default;
};

absl::StatusOr<std::unique_ptr<Context>> Make(const std::shared_ptr<ProcessGroup>& group,
                                              const Setting& setting, Products* products) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 2048}},
                  SizesOfAxes(setting.preset, group->size())));
  OptimizerConfig config;
  config.adamw.weight_decay = kDecay;
  config.muon = {.momentum = kMomentum, .weight_decay = kDecay, .nesterov = setting.nesterov};
  if (setting.own_product) config.product = {.product = CountedProduct, .user = products};
  config.threads = setting.threads;
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
  WEFT_RETURN_IF_ERROR(context->builder().AddGroup({.kind = WEFT_OPTIMIZER_MUON}).status());
  Placement placement = PlacementOf(setting.preset);
  placement.cut = CutRule::kParams;
  const std::vector<ModelParam> model = Model();
  WEFT_RETURN_IF_ERROR(Declare(*context, model, placement));
  for (size_t p = 0; p < model.size(); ++p) {
    if (IsMuons(model[p])) {
      WEFT_RETURN_IF_ERROR(context->builder().SetParamGroup(static_cast<int>(p), 1));
    }
  }
  return context;
}

absl::StatusOr<Outcome> Train(const std::shared_ptr<ProcessGroup>& group, const Setting& setting,
                              const Scenario& scenario, int rank) {
  const std::vector<ModelParam> model = Model();
  Products products;
  WEFT_ASSIGN_OR_RETURN(auto context, Make(group, setting, &products));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
  WEFT_ASSIGN_OR_RETURN(const auto reports, context->Report());
  EXPECT_EQ(reports[static_cast<size_t>(rank)].optimizer_bytes, plan.optimizer_bytes);
  WEFT_RETURN_IF_ERROR(LoadParams(*context, model, SmallDrawnValues(model, scenario)));
  Outcome outcome;
  for (int step = 0; step < scenario.steps; ++step) {
    WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result,
                          context->OptimizerStep(UpdateWith(kRate, kNormMax)));
    outcome.norms.push_back(result.grad_norm);
    WEFT_RETURN_IF_ERROR(context->StepEnd());
  }
  WEFT_RETURN_IF_ERROR(context->Verify());
  WEFT_ASSIGN_OR_RETURN(outcome.params, ReadParams(*context, model));
  EXPECT_TRUE(products.shapes_are_good);
  // Six matrices, five times three products each.
  if (setting.own_product && scenario.ranks == 1) {
    EXPECT_EQ(products.calls, 6U * 15U * static_cast<size_t>(scenario.steps));
  }
  return outcome;
}

Outcome TrainAll(const Setting& setting, const Scenario& scenario) {
  return SameOnAllRanks<Outcome>(GroupKind::kLocal, scenario.ranks,
                                 [&](int rank, std::shared_ptr<ProcessGroup> group) {
                                   return Train(group, setting, scenario, rank);
                                 });
}

// ---- the formula, in double ----

struct Doubles {
  size_t rows, cols;
  std::vector<double> at;

  double& operator()(size_t i, size_t j) { return at[i * cols + j]; }

  double operator()(size_t i, size_t j) const { return at[i * cols + j]; }
};

Doubles Transposed(const Doubles& x) {
  Doubles to{x.cols, x.rows, std::vector<double>(x.at.size())};
  for (size_t i = 0; i < x.rows; ++i) {
    for (size_t j = 0; j < x.cols; ++j)
      to(j, i) = x(i, j);
  }
  return to;
}

Doubles Product(const Doubles& a, const Doubles& b) {
  Doubles c{a.rows, b.cols, std::vector<double>(a.rows * b.cols)};
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < b.cols; ++j) {
      for (size_t k = 0; k < a.cols; ++k)
        c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

Doubles Orthogonalised(const Doubles& u) {
  double squares = 0;
  for (const double value : u.at)
    squares += value * value;
  Doubles x = u.rows > u.cols ? Transposed(u) : u;
  for (double& value : x.at)
    value /= std::max(std::sqrt(squares), 1e-7);
  for (int i = 0; i < 5; ++i) {
    const Doubles a = Product(x, Transposed(x));
    const Doubles aa = Product(a, a);
    Doubles b = a;
    for (size_t at = 0; at < b.at.size(); ++at)
      b.at[at] = -4.7750 * a.at[at] + 2.0315 * aa.at[at];
    const Doubles bx = Product(b, x);
    for (size_t at = 0; at < x.at.size(); ++at)
      x.at[at] = 3.4445 * x.at[at] + bx.at[at];
  }
  return u.rows > u.cols ? Transposed(x) : x;
}

// The weights of MUON's params after all steps; the others are left empty.
std::vector<std::vector<double>> TrainByFormula(const Scenario& scenario, bool nesterov) {
  const std::vector<ModelParam> model = Model();
  const std::vector<Elements> values = SmallDrawnValues(model, scenario);
  std::vector<std::vector<double>> weights(model.size()), momentums(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    if (!IsMuons(model[p])) continue;
    for (const uint64_t bits : values[p])
      weights[p].push_back(DecodeFloat(model[p].dtype, bits));
    momentums[p].resize(weights[p].size());
  }
  for (int step = 0; step < scenario.steps; ++step) {
    const std::vector<std::vector<double>> gradients =
        ClippedGradients(model, scenario, step, kNormMax);
    for (size_t p = 0; p < model.size(); ++p) {
      if (!IsMuons(model[p]) || model[p].frozen || weights[p].empty()) continue;
      const auto rows = static_cast<size_t>(model[p].shape[0]);
      const auto cols = static_cast<size_t>(model[p].shape[1]);
      Doubles u{rows, cols, std::vector<double>(rows * cols)};
      for (size_t i = 0; i < u.at.size(); ++i) {
        const double gradient = (1 - kMomentum) * gradients[p][i];
        momentums[p][i] = kMomentum * momentums[p][i] + gradient;
        u.at[i] = nesterov ? gradient + kMomentum * momentums[p][i] : momentums[p][i];
      }
      const Doubles update = Orthogonalised(u);
      const double scale =
          std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
      for (size_t i = 0; i < u.at.size(); ++i) {
        const double decay = model[p].decays ? kDecay : 0;
        weights[p][i] = weights[p][i] * (1 - kRate * decay) - kRate * scale * update.at[i];
      }
    }
  }
  return weights;
}

// Newton-Schulz makes small singular values 3.4445^5 times as large, and float32's roundings with them.
void ExpectNear(const Outcome& outcome, const std::vector<std::vector<double>>& weights) {
  const std::vector<ModelParam> model = Model();
  for (size_t p = 0; p < model.size(); ++p) {
    for (size_t i = 0; i < weights[p].size(); ++i) {
      const double is = DecodeFloat(model[p].dtype, outcome.params[p][i]);
      const double rounding =
          model[p].dtype == WEFT_BFLOAT16 ? 0x1p-8 * std::abs(weights[p][i]) : 0;
      ASSERT_NEAR(is, weights[p][i], 5e-6 + rounding) << model[p].name << "[" << i << "]";
    }
  }
}

class MuonTest : public testing::TestWithParam<int> {};

TEST_P(MuonTest, TrainsByItsFormulaWithTheSameBitsUnderEveryPreset) {
  const Scenario scenario{.seed = 11, .ranks = GetParam(), .steps = 3};
  for (const bool nesterov : {true, false}) {
    Setting setting{.nesterov = nesterov};
    const Outcome whole = TrainAll(setting, scenario);
    ExpectNear(whole, TrainByFormula(scenario, nesterov));
    for (const weft_shard_preset_t preset : PresetsFor(GetParam())) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(StrCat(PresetName(preset), ", ", threads, " threads"));
        setting.preset = preset;
        setting.threads = threads;
        EXPECT_TRUE(TrainAll(setting, scenario) == whole);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, MuonTest, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return StrCat("On", info.param); });

TEST(Muon, AsksTheCallersProduct) {
  for (const int ranks : {1, 3}) {
    const Scenario scenario{.ranks = ranks, .steps = 2};
    Setting setting{.preset = WEFT_SHARD_FULL_SHARD};
    const Outcome wefts = TrainAll(setting, scenario);
    setting.own_product = true;
    EXPECT_TRUE(TrainAll(setting, scenario) == wefts) << "the same order of additions";
  }
}

// The singular values of an update lie between 0.6 and 1.3, but for those that were too small to be found.
TEST(Muon, MovesByANearlyOrthonormalMatrix) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 1, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(group, {}, nullptr));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        const Scenario scenario{.seed = 5, .ranks = 1};
        WEFT_RETURN_IF_ERROR(RunStep(*context, Model(), scenario, rank, 0).status());
        WEFT_RETURN_IF_ERROR(context->OptimizerStep(UpdateWith(1)).status());
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        Doubles moved{24, 40, {}};
        std::vector<float> weights(moved.rows * moved.cols);
        WEFT_RETURN_IF_ERROR(context->Read(0, weights.data()));
        moved.at.assign(weights.begin(), weights.end());
        const Doubles squares = Product(moved, Transposed(moved));
        double trace = 0;
        for (size_t i = 0; i < squares.rows; ++i)
          trace += squares(i, i);
        EXPECT_NEAR(trace / 24, 0.85, 0.35);
        return absl::OkStatus();
      }));
}

TEST(Muon, RefusesWhatIsNoWholeMatrix) {
  const auto refused = [](int ranks, bool vector, CutRule cut) {
    const std::vector<absl::Status> statuses = RunRanks(
        GroupKind::kLocal, ranks, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
          WEFT_RETURN_IF_ERROR(context->SetOptimizer({.kind = WEFT_OPTIMIZER_MUON}));
          Placement placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
          placement.cut = cut;
          WEFT_RETURN_IF_ERROR(Declare(
              *context,
              {{"a", "a.w", vector ? std::vector<int64_t>{600} : std::vector<int64_t>{20, 30},
                WEFT_FLOAT32}},
              placement));
          return context->Finalize().status();
        });
    for (const absl::Status& status : statuses)
      EXPECT_EQ(ResultOf(status), ResultOf(statuses[0]));
    EXPECT_TRUE(statuses[0].ok() || ResultOf(statuses[0]) == WEFT_UNSUPPORTED);
    return std::string(statuses[0].message());
  };
  EXPECT_THAT(refused(1, true, CutRule::kElements),
              HasSubstr("parameter a.w has 1 dimensions, and MUON updates matrices"));
  EXPECT_THAT(refused(2, false, CutRule::kElements),
              HasSubstr("parameter a.w of unit a is cut between ranks, and MUON needs the whole "
                        "matrix on one; give the unit a policy with cut WEFT_SHARD_CUT_TENSOR"));
  EXPECT_EQ(refused(2, false, CutRule::kParams), "");
  EXPECT_EQ(refused(1, false, CutRule::kElements), "");
}

}  // namespace
}  // namespace weft::muon_test
