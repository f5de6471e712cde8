#include "trainer/model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <malloc.h>

#include "tests/trainer/finite_difference.h"
#include "tests/trainer/owned_params.h"

namespace weft::trainer::model_test {
namespace {

// Notes the calls, so that their order can be checked.
class RecordingHooks : public OwnedParams<double> {
 public:
  using OwnedParams::OwnedParams;

  UnitView<double> PreForward(size_t unit) override {
    Add("pre_forward", unit);
    return OwnedParams::PreForward(unit);
  }

  void PostForward(size_t unit) override { Add("post_forward", unit); }

  UnitView<double> PreBackward(size_t unit) override {
    Add("pre_backward", unit);
    return OwnedParams::PreBackward(unit);
  }

  void PostBackward(size_t unit) override { Add("post_backward", unit); }

  void GradReady(size_t unit, size_t param) override {
    EXPECT_TRUE(ready.emplace(unit, param).second) << unit << " " << param;
    EXPECT_EQ(calls.back(), "pre_backward " + std::to_string(unit)) << "outside of its unit";
  }

  void Forget() { calls.clear(), ready.clear(); }

  std::vector<std::string> calls;
  std::set<std::pair<size_t, size_t>> ready;

 private:
  void Add(const std::string& what, size_t unit) {
    calls.push_back(what + " " + std::to_string(unit));
  }
};

// Hands out other memory for each use of a unit and spoils it when the use ends.
class MovingHooks : public UnitHooks<double> {
 public:
  explicit MovingHooks(OwnedParams<double>& rest)
      : rest_(rest), forward_(rest.data.size()), backward_(rest.data.size()) {}

  UnitView<double> PreForward(size_t unit) override { return Lend(unit, forward_[unit], false); }

  void PostForward(size_t unit) override { Spoil(forward_[unit]); }

  UnitView<double> PreBackward(size_t unit) override { return Lend(unit, backward_[unit], true); }

  void PostBackward(size_t unit) override {
    rest_.grad[unit] = backward_[unit].back().grad;
    Spoil(backward_[unit]);
  }

  void GradReady(size_t, size_t) override {}

 private:
  // What one use was lent.
  struct Loan {
    std::vector<std::vector<double>> data, grad;
    std::vector<ParamView<double>> views;
  };

  UnitView<double> Lend(size_t unit, std::vector<Loan>& loans, bool grads) {
    Loan& loan = loans.emplace_back(Loan{rest_.data[unit], rest_.grad[unit], {}});
    for (size_t p = 0; p < loan.data.size(); p++) {
      loan.views.push_back(
          {loan.data[p].data(), grads ? loan.grad[p].data() : nullptr, loan.data[p].size()});
    }
    return loan.views;
  }

  static void Spoil(std::vector<Loan>& loans) {
    for (auto* tensors : {&loans.back().data, &loans.back().grad}) {
      for (auto& values : *tensors)
        std::fill(values.begin(), values.end(), std::nan(""));
    }
    for (ParamView<double>& view : loans.back().views)
      view = {};
  }

  OwnedParams<double>& rest_;
  std::vector<std::vector<Loan>> forward_, backward_;  // by unit
};

// A model with the activations of one micro-batch, of two sequences.
template <typename T>
struct Runner {
  Model<T> model;
  Activations<T> kept;

  Runner(const ModelConfig& config, const std::unique_ptr<Matmul<T>>& matmul, UnitHooks<T>& hooks,
         Recompute recompute = Recompute::kNone)
      : model(config, 2, *matmul, hooks), kept(config, 2, recompute, model.input_type()) {}

  // Forward and backward; the loss.
  double Step(const Token* inputs, const Token* targets, double scale) {
    model.Forward(inputs, 2, kept);
    return model.Backward(inputs, targets, 2, scale, kept);
  }

  double Loss(const Token* inputs, const Token* targets, size_t skip = 0) {
    return model.Score(inputs, targets, 2, skip, kept);
  }

  // After the token at `position`.
  std::vector<T> Logits(const Token* inputs, size_t position, size_t count) {
    const T* logits = model.Logits(inputs, position, kept);
    return {logits, logits + count};
  }
};

// A model whose parameters are larger than usual, so that every gradient is felt.
constexpr ModelConfig kTinyShape = {
    .vocabulary = 7, .seq = 4, .width = 6, .layers = 2, .heads = 2, .vocabulary_multiple = 4};

// Two heads of queries to one of keys and values.
constexpr ModelConfig kTinyLlama = {.vocabulary = 7,
                                    .seq = 4,
                                    .width = 16,
                                    .layers = 2,
                                    .heads = 4,
                                    .vocabulary_multiple = 4,
                                    .architecture = Architecture::kLlama,
                                    .kv_heads = 2,
                                    .hidden = 6,
                                    .rope_theta = 10,
                                    .norm_epsilon = 1e-3};

struct Tiny {
  ModelConfig config;
  std::vector<UnitSpec> units = ModelUnits(config);
  RecordingHooks hooks{units};
  std::unique_ptr<Matmul<double>> matmul = MakeMatmul<double>(Precision::kFp32);

  explicit Tiny(const ModelConfig& shape = kTinyShape) : config(shape) {
    uint64_t seed = 1;
    for (size_t u = 0; u < units.size(); u++) {
      for (size_t p = 0; p < units[u].params.size(); p++) {
        hooks.data[u][p] = RandomValues(units[u].params[p].Count(), seed++);
        for (double& v : hooks.data[u][p])
          v = v * 0.5 + units[u].params[p].mean;
      }
    }
  }
};

const Token kInputs[8] = {0, 3, 6, 2, 5, 5, 1, 0};
const Token kTargets[8] = {3, 6, 2, 1, 5, 1, 0, 4};

void ExpectEveryGradient(const ModelConfig& shape) {
  Tiny tiny(shape);
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  constexpr double kScale = 0.125;
  model.Step(kInputs, kTargets, kScale);
  const auto f = [&] {
    return kScale * model.Loss(kInputs, kTargets);
  };
  for (size_t u = 0; u < tiny.units.size(); u++) {
    for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
      ExpectGradient(tiny.units[u].params[p].name, tiny.hooks.data[u][p].data(),
                     tiny.hooks.grad[u][p].data(), tiny.hooks.data[u][p].size(), f, 40);
    }
  }
}

TEST(Model, BackwardIsTheGradientOfTheLossForEveryParameter) {
  ExpectEveryGradient(kTinyShape);
}

TEST(Model, BackwardIsTheGradientWhereTheHeadIsAMatrixOfItsOwn) {
  ModelConfig shape = kTinyShape;
  shape.tied_head = false;
  ExpectEveryGradient(shape);
}

TEST(Model, BackwardIsTheGradientOfEveryParameterOfALlama) {
  ModelConfig shape = kTinyLlama;
  ExpectEveryGradient(shape);
  shape.tied_head = false;
  shape.kv_heads = 0;
  shape.hidden = 5;  // less than the width
  ExpectEveryGradient(shape);
}

// What its numbers say: not what other ones would.
TEST(Model, EachNumberOfALlamaCounts) {
  const auto loss = [](const ModelConfig& shape) {
    Tiny tiny(shape);
    return Runner<double>(tiny.config, tiny.matmul, tiny.hooks).Loss(kInputs, kTargets);
  };
  const double before = loss(kTinyLlama);
  ModelConfig theta = kTinyLlama, epsilon = kTinyLlama;
  theta.rope_theta = 20;
  epsilon.norm_epsilon = 2e-3;
  EXPECT_GT(std::abs(loss(theta) - before), 1e-6);
  EXPECT_GT(std::abs(loss(epsilon) - before), 1e-6);
}

// Two thirds of four times the width, up to a multiple of 64; and operations of products by
// parameter.
TEST(Model, ALlamaHasTheNumbersThatItLeavesOpen) {
  ModelConfig shape = {
      .seq = 16, .width = 288, .layers = 2, .heads = 6, .architecture = Architecture::kLlama};
  EXPECT_EQ(WithModelDefaults(shape).kv_heads, 6u);
  EXPECT_EQ(WithModelDefaults(shape).hidden, 768u);
  shape.width = 289;
  EXPECT_EQ(shape.hidden_width(), 832u);
  shape.width = 288;
  shape.kv_heads = 2;
  constexpr size_t kWidth = 288, kHidden = 768, kKeys = 96, kTable = 256 * kWidth;
  constexpr size_t kBlock = kWidth * (kWidth + 2 * kKeys) + kWidth * kWidth + 3 * kWidth * kHidden;
  EXPECT_EQ(ParameterCount(ModelUnits(shape)), kTable + 2 * (kBlock + 2 * kWidth) + kWidth);
  EXPECT_EQ(FlopsPerToken(shape), double(6 * (kTable + 2 * (kBlock + 16 * kWidth))));
}

// The eighth row of the token table: it belongs to no token.
TEST(Model, PaddingOfTheVocabularyTakesNoPart) {
  Tiny tiny;
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  model.Step(kInputs, kTargets, 1);
  const double before = model.Loss(kInputs, kTargets);
  const size_t first = 7 * tiny.config.width;
  std::vector<double>& wte = tiny.hooks.data[0][kTokens];
  ASSERT_EQ(wte.size(), 8 * tiny.config.width);
  for (size_t i = first; i < wte.size(); i++) {
    EXPECT_EQ(tiny.hooks.grad[0][kTokens][i], 0);
    wte[i] = 100;
  }
  EXPECT_EQ(model.Loss(kInputs, kTargets), before);
}

TEST(Model, PaddingOfTheVocabularyBeginsAsZero) {
  constexpr size_t kVocabulary = 300, kWidth = 8;
  const ParamSpec spec =
      ModelUnits({.vocabulary = kVocabulary, .width = kWidth})[0].params[kTokens];
  ASSERT_EQ(spec.shape, (std::vector<int64_t>{384, kWidth}));
  std::vector<float> values(spec.Count(), 1);
  InitParam(spec, 1, 0, values.data());
  for (size_t i = 0; i < values.size(); i++)
    EXPECT_EQ(values[i] == 0, i >= kVocabulary * kWidth) << i;
}

// As a pipeline has several under way.
TEST(Model, MicroBatchesUnderWayDoNotMix) {
  const Token other[8] = {1, 1, 2, 6, 0, 4, 4, 3};
  Tiny apart, together;
  Runner<double> model(apart.config, apart.matmul, apart.hooks);
  for (const Token* inputs : {kInputs, other}) {
    apart.hooks.Forget();
    model.Step(inputs, kTargets, 1);
  }
  Runner<double> first(together.config, together.matmul, together.hooks);
  Activations<double> second(together.config, 2, Recompute::kNone);
  first.model.Forward(kInputs, 2, first.kept);
  first.model.Forward(other, 2, second);
  first.model.Backward(kInputs, kTargets, 2, 1, first.kept);
  together.hooks.Forget();
  first.model.Backward(other, kTargets, 2, 1, second);
  EXPECT_EQ(together.hooks.grad, apart.hooks.grad);
}

// Bit for bit, also with another micro-batch in between, whose blocks write to the same places.
TEST(Model, RecomputationChangesNoBit) {
  const Token other[8] = {1, 1, 2, 6, 0, 4, 4, 3};
  for (const ModelConfig& shape : {kTinyShape, kTinyLlama}) {
    Tiny still(shape);
    Runner<double> expected(still.config, still.matmul, still.hooks);
    const double loss = expected.Step(kInputs, kTargets, 1);
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      Tiny again(shape);
      Runner<double> model(again.config, again.matmul, again.hooks, recompute);
      model.Step(other, kTargets, 1);
      for (auto& unit : again.hooks.grad) {
        for (auto& gradient : unit)
          gradient.assign(gradient.size(), 0);
      }
      again.hooks.Forget();
      EXPECT_EQ(model.Step(kInputs, kTargets, 1), loss);
      EXPECT_EQ(again.hooks.grad, still.hooks.grad);
    }
  }
}

// With what is left out held still, it is a function like any other.
void ExpectGradientsUnderDropout(const ModelConfig& shape) {
  Tiny tiny(shape);
  const Dropout dropout(0.3, 1, 5, 2);
  OwnedParams<double>& params = tiny.hooks;
  Model<double> model(tiny.config, 2, *tiny.matmul, static_cast<UnitHooks<double>&>(params));
  Activations<double> kept(tiny.config, 2, Recompute::kFull);
  const auto step = [&](double scale) {
    tiny.hooks.Forget();
    model.Forward(kInputs, 2, kept, dropout);
    return model.Backward(kInputs, kTargets, 2, scale, kept);
  };
  const double loss = step(1);
  const auto gradients = tiny.hooks.grad;
  EXPECT_NE(loss, model.Score(kInputs, kTargets, 2, 0, kept));
  for (size_t u = 0; u < tiny.units.size(); u++) {
    for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
      ExpectGradient(
          tiny.units[u].params[p].name, tiny.hooks.data[u][p].data(), gradients[u][p].data(),
          gradients[u][p].size(), [&] { return step(1); }, 20);
    }
  }
}

TEST(Model, BackwardIsTheGradientUnderDropout) {
  ExpectGradientsUnderDropout(kTinyShape);
  ExpectGradientsUnderDropout(kTinyLlama);
}

// The third sequence of a step drops the same as the first of a micro-batch that begins with it.
TEST(Model, DropoutGoesByTheSequenceOfTheStep) {
  const Token four[16] = {0, 3, 6, 2, 5, 5, 1, 0, 1, 1, 2, 6, 0, 4, 4, 3};
  Tiny tiny;
  Model<double> model(tiny.config, 4, *tiny.matmul, tiny.hooks);
  Activations<double> all(tiny.config, 4, Recompute::kNone), half(tiny.config, 2, Recompute::kNone);
  model.Forward(four, 4, all, Dropout(0.5, 1, 7, 10));
  model.Forward(four + 8, 2, half, Dropout(0.5, 1, 7, 12));
  const size_t count = 8 * tiny.config.width;
  for (size_t layer = 0; layer <= tiny.config.layers; layer++) {
    for (size_t i = 0; i < count; i++)
      EXPECT_NEAR(half.residual(layer)[i], all.residual(layer)[count + i], 1e-12) << layer;
  }
}

TEST(Dropout, EachStepLayerAndPlaceHasAMaskOfItsOwn) {
  std::set<uint64_t> keys;
  for (const size_t step : {0, 1}) {
    for (const size_t layer : {0, 1}) {
      for (const DropoutSite site : {DropoutSite::kEmbedding, DropoutSite::kAttention,
                                     DropoutSite::kProjection, DropoutSite::kMlp})
        keys.insert(Dropout(0.1, 9, step, 0).At(layer, site, 4).key);
    }
  }
  EXPECT_EQ(keys.size(), 16u);
  EXPECT_EQ(Dropout(0.25, 9, 0, 3).At(0, DropoutSite::kMlp, 4).threshold, 16384u);
  EXPECT_EQ(Dropout(0.25, 9, 0, 3).At(0, DropoutSite::kMlp, 4).first_row, 12u);
  EXPECT_EQ(Dropout().At(0, DropoutSite::kMlp, 4).threshold, 0u);
}

TEST(Model, RecomputationKeepsAQuarterOfTheActivationsOfTwelveLayers) {
  const ModelConfig model = {.seq = 256, .width = 384, .layers = 12, .heads = 6};
  for (const NumberType inputs : {NumberType::kFloat32, NumberType::kBf16}) {
    const double all = double(WorkingBytes(model, 8, Recompute::kNone, inputs));
    EXPECT_LT(double(WorkingBytes(model, 8, Recompute::kSelective, inputs)), 0.75 * all);
    EXPECT_LT(double(WorkingBytes(model, 8, Recompute::kFull, inputs)), 0.25 * all);
  }
}

// More rows than a tile has, and a tile that is not full.
TEST(OutputHead, TilesGiveTheGradientsOfTheWhole) {
  constexpr size_t kRows = 1100, kWidth = 8, kPadded = 12;
  const ModelConfig shape = {
      .vocabulary = 9, .seq = 550, .width = kWidth, .heads = 2, .vocabulary_multiple = 4};
  const auto matmul = MakeReferenceMatmul<double>(Precision::kFp32);
  OutputHead<double> head(shape, 2, *matmul);
  const auto hidden = RandomValues(kRows * kWidth, 1), weight = RandomValues(kPadded * kWidth, 2);
  std::vector<Token> targets(kRows);
  for (size_t i = 0; i < kRows; i++)
    targets[i] = Token(i * 7 % 9);
  std::vector<double> logits(kRows * kPadded), dhidden(kRows * kWidth), dx(kRows * kWidth),
      dw(kPadded * kWidth), dweight(kPadded * kWidth, std::nan(""));  // it is unset
  const double loss = head.Backward(weight.data(), hidden.data(), targets.data(), kRows, 0.5,
                                    {dweight.data(), true}, dhidden.data());
  const MatmulShape whole = {kRows, kWidth, kPadded};
  matmul->Forward(hidden.data(), weight.data(), {}, logits.data(), whole, true);
  EXPECT_NEAR(loss,
              GetOps<double>().cross_entropy(logits.data(), targets.data(), 0.5,
                                             NumberType::kFloat64, kRows, 9, kPadded),
              1e-9);
  EXPECT_NEAR(head.Loss(weight.data(), hidden.data(), targets.data(), kRows), loss, 1e-9);
  matmul->BackwardWeight(hidden.data(), logits.data(), {dw.data()}, whole, true);
  matmul->BackwardInput(logits.data(), weight.data(), dx.data(), whole, true);
  for (size_t i = 0; i < dw.size(); i++)
    EXPECT_NEAR(dweight[i], dw[i], 1e-11);
  EXPECT_EQ(dhidden, dx);
}

// Parameters of 16 bits, whose gradients are float32.
class HalfParams : public OwnedParams<float> {
 public:
  // Takes what `values` rounds to, and leaves that there.
  HalfParams(const std::vector<UnitSpec>& units, OwnedParams<float>& values, NumberType type)
      : OwnedParams(units), type_(type) {
    const Ops<float>& ops = GetOps<float>();
    for (auto& unit : values.data) {
      auto& halves = half_.emplace_back();
      for (std::vector<float>& param : unit) {
        auto& half = halves.emplace_back(param.size());
        (type == NumberType::kBf16 ? ops.to_bf16 : ops.to_fp16)(param.data(), half.data(),
                                                                half.size());
        ops.widen({half.data(), type}, param.data(), param.size());
      }
    }
  }

  UnitView<float> PreForward(size_t unit) override { return Halved(unit); }

  UnitView<float> PreBackward(size_t unit) override { return Halved(unit); }

 private:
  UnitView<float> Halved(size_t unit) {
    view_.clear();
    for (size_t p = 0; p < half_[unit].size(); p++)
      view_.push_back(
          {{half_[unit][p].data(), type_}, grad[unit][p].data(), half_[unit][p].size()});
    return view_;
  }

  const NumberType type_;
  std::vector<std::vector<std::vector<uint16_t>>> half_;
  std::vector<ParamView<float>> view_;
};

void ExpectWeightsOf16BitsToBeTheirValues(const ModelConfig& shape) {
  const auto units = ModelUnits(shape);
  for (const NumberType type : {NumberType::kBf16, NumberType::kFp16}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      if (!PrecisionSupported(precision)) continue;
      OwnedParams<float> whole(units);
      uint64_t seed = 7;
      for (auto& unit : whole.data) {
        for (std::vector<float>& param : unit) {
          const std::vector<double> values = RandomValues(param.size(), seed++);
          std::copy(values.begin(), values.end(), param.begin());
        }
      }
      HalfParams half(units, whole, type);
      const auto matmul = MakeMatmul<float>(precision);
      Runner<float> expected(shape, matmul, whole), model(shape, matmul, half);
      EXPECT_EQ(model.Step(kInputs, kTargets, 1), expected.Step(kInputs, kTargets, 1));
      EXPECT_EQ(half.grad, whole.grad);
    }
  }
}

TEST(Model, ComputesWithWeightsOf16BitsAsWithTheSameValuesIn32) {
  ExpectWeightsOf16BitsToBeTheirValues(kTinyShape);
  ExpectWeightsOf16BitsToBeTheirValues(kTinyLlama);
}

// Gradients of products with rounded inputs are near those of float32.
TEST(Model, ALlamasGradientsInBf16DifferByRoundingAlone) {
  if (!PrecisionSupported(Precision::kBf16)) GTEST_SKIP() << "oneDNN has no bf16 on this CPU";
  ModelConfig shape = kTinyLlama;
  shape.width = 32;
  shape.hidden = 48;
  Tiny tiny(shape);
  OwnedParams<float> whole(tiny.units), rounded(tiny.units);
  for (size_t u = 0; u < tiny.units.size(); u++) {
    for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
      const std::vector<double>& values = tiny.hooks.data[u][p];
      whole.data[u][p].assign(values.begin(), values.end());
      rounded.data[u][p].assign(values.begin(), values.end());
    }
  }
  const auto fp32 = MakeMatmul<float>(Precision::kFp32), bf16 = MakeMatmul<float>(Precision::kBf16);
  const double expected =
      Runner<float>(shape, fp32, whole, Recompute::kFull).Step(kInputs, kTargets, 1);
  EXPECT_NEAR(Runner<float>(shape, bf16, rounded, Recompute::kFull).Step(kInputs, kTargets, 1),
              expected, 0.02 * expected);
  for (size_t u = 0; u < tiny.units.size(); u++) {
    for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
      double error = 0, size = 0;
      for (size_t i = 0; i < whole.grad[u][p].size(); i++) {
        const double difference = double(rounded.grad[u][p][i]) - double(whole.grad[u][p][i]);
        error += difference * difference;
        size += double(whole.grad[u][p][i]) * double(whole.grad[u][p][i]);
      }
      // As of GPT-2 (golden_test.cc): 4 * 1.03^layers * 2^-7 of the norm.
      EXPECT_LE(std::sqrt(error / size), 4 * 1.1 / 128) << tiny.units[u].params[p].name;
    }
  }
}

TEST(Model, ScoreLeavesOutTheContext) {
  Tiny tiny;
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  EXPECT_DOUBLE_EQ(model.Loss(kInputs, kTargets), model.Step(kInputs, kTargets, 1));
  double last = 0;  // of each sequence, from the logits themselves
  for (const size_t b : {0, 1}) {
    const std::vector<double> row = model.Logits(kInputs + 4 * b, 3, tiny.config.vocabulary);
    double sum = 0;
    for (const double logit : row)
      sum += std::exp(logit);
    last += std::log(sum) - row[kTargets[4 * b + 3]];
  }
  EXPECT_NEAR(model.Loss(kInputs, kTargets, 3), last, 1e-12);
}

TEST(Model, PositionsStartAsSinusoids) {
  const ParamSpec spec = ModelUnits({.seq = 8, .width = 6, .layers = 1, .heads = 1})[0].params[1];
  ASSERT_EQ(spec.name, "wpe");
  std::vector<double> wpe(spec.Count());
  InitParam(spec, 1, 1, wpe.data());
  for (size_t t = 0; t < 8; t++) {
    EXPECT_NEAR(wpe[t * 6], spec.sinusoid * std::sin(double(t)), 1e-12);
    EXPECT_NEAR(wpe[t * 6 + 1], spec.sinusoid * std::cos(double(t)), 1e-12);
  }
}

// What a rank of tensor parallelism has must be one interval of each parameter, so that checkpoints
// can be cut anew: the heads of a block in any order are the same block, and so are its hidden
// units.
TEST(Model, HeadsAndHiddenUnitsAreIntervalsOfTheirParameters) {
  const std::vector<std::pair<ModelConfig, std::vector<std::string>>> cut_together = {
      {kTinyShape,
       {"block.0.attn.qkv.weight", "block.0.attn.qkv.bias", "block.0.attn.proj.weight"}},
      {kTinyShape, {"block.1.mlp.up.weight", "block.1.mlp.up.bias", "block.1.mlp.down.weight"}},
      {kTinyLlama, {"block.0.attn.qkv.weight", "block.0.attn.proj.weight"}},
      {kTinyLlama,
       {"block.1.mlp.gate.weight", "block.1.mlp.up.weight", "block.1.mlp.down.weight"}}};
  for (const auto& [shape, names] : cut_together) {
    Tiny tiny(shape);  // two heads of keys, so each has one half
    Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
    const double before = model.Loss(kInputs, kTargets);
    size_t turned = 0;
    for (size_t u = 0; u < tiny.units.size(); u++) {
      for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
        if (std::find(names.begin(), names.end(), tiny.units[u].params[p].name) == names.end())
          continue;
        std::vector<double>& values = tiny.hooks.data[u][p];
        std::rotate(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2),
                    values.end());
        turned++;
        if (turned == 1) {
          EXPECT_GT(std::abs(model.Loss(kInputs, kTargets) - before), 1e-6);
        }
      }
    }
    EXPECT_EQ(turned, names.size());
    EXPECT_NEAR(model.Loss(kInputs, kTargets), before, 1e-12);
  }
}

TEST(Model, BackwardAddsToTheGradients) {
  Tiny tiny;
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  model.Step(kInputs, kTargets, 1);
  const auto once = tiny.hooks.grad;
  tiny.hooks.Forget();
  model.Step(kInputs, kTargets, 1);
  for (size_t u = 0; u < once.size(); u++) {
    for (size_t p = 0; p < once[u].size(); p++) {
      for (size_t i = 0; i < once[u][p].size(); i++) {
        EXPECT_NEAR(tiny.hooks.grad[u][p][i], 2 * once[u][p][i], 1e-12);
      }
    }
  }
}

TEST(Model, AnnouncesEveryGradientOnceAndInsideItsUnit) {
  Tiny tiny;
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  model.Step(kInputs, kTargets, 1);
  const std::vector<std::string> expected = {
      "pre_forward 0",  "post_forward 0",  "pre_forward 1",  "post_forward 1",
      "pre_forward 2",  "post_forward 2",  "pre_forward 3",  "post_forward 3",
      "pre_forward 0",  "post_forward 0",  "pre_backward 0", "post_backward 0",
      "pre_backward 3", "post_backward 3", "pre_backward 2", "post_backward 2",
      "pre_backward 1", "post_backward 1", "pre_backward 0", "post_backward 0"};
  EXPECT_EQ(tiny.hooks.calls, expected);
  EXPECT_EQ(tiny.hooks.ready.size(), 2u + 2 * 12 + 2);

  Tiny llama(kTinyLlama);
  Runner<double>(llama.config, llama.matmul, llama.hooks).Step(kInputs, kTargets, 1);
  EXPECT_EQ(llama.hooks.calls, expected);
  EXPECT_EQ(llama.hooks.ready.size(), 1u + 2 * 7 + 1);
}

TEST(Model, AsksForAddressesAtEveryUse) {
  Tiny still, moving;
  Runner<double> expected(still.config, still.matmul, still.hooks);
  MovingHooks hooks(moving.hooks);
  Runner<double> model(moving.config, moving.matmul, hooks);
  for (size_t pass = 0; pass < 2; pass++) {
    still.hooks.Forget();
    EXPECT_EQ(model.Step(kInputs, kTargets, 1), expected.Step(kInputs, kTargets, 1));
    EXPECT_EQ(moving.hooks.grad, still.hooks.grad);
  }
}

TEST(Model, LaterBytesDoNotChangeEarlierLogits) {
  Tiny tiny;
  Runner<double> model(tiny.config, tiny.matmul, tiny.hooks);
  const Token a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 6, 0};
  for (size_t position = 0; position < 2; position++)
    EXPECT_EQ(model.Logits(a, position, 7), model.Logits(b, position, 7));
  EXPECT_NE(model.Logits(a, 2, 7), model.Logits(b, 2, 7));
}

TEST(Model, InitialValuesDependOnSeedAndPositionOnly) {
  const auto units = ModelUnits({});
  const ParamSpec& spec = units[1].params[2];
  std::vector<float> a(spec.Count()), b(spec.Count()), c(spec.Count());
  InitParam(spec, 1, 4, a.data());
  InitParam(spec, 1, 4, b.data());
  InitParam(spec, 2, 4, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  double squares = 0;
  for (const float v : a)
    squares += double(v) * v;
  EXPECT_NEAR(std::sqrt(squares / double(a.size())), spec.deviation, 0.02 * spec.deviation);
}

TEST(Model, DefaultHasOneToThreeMillionParameters) {
  const size_t count = ParameterCount(ModelUnits({}));
  EXPECT_GE(count, 1000000u);
  EXPECT_LE(count, 3000000u);
}

#ifndef WEFT_SANITIZE  // whose allocators mallinfo2 does not know
TEST(Model, KeepsAsManyBytesAsThePlanSays) {
  for (const ModelConfig& config : {ModelConfig{.seq = 64, .width = 96, .layers = 3, .heads = 4},
                                    ModelConfig{.seq = 128, .width = 32, .layers = 1, .heads = 2},
                                    ModelConfig{.seq = 64,
                                    .width = 96,
                                    .layers = 3,
                                    .heads = 6,
                                    .architecture = Architecture::kLlama,
                                    .kv_heads = 2}}) {
    for (const size_t batch : {4, 9}) {
      OwnedParams<float> params(ModelUnits(config));
      const auto matmul =
          MakeReferenceMatmul<float>(batch == 4 ? Precision::kFp32 : Precision::kBf16);
      const auto taken = [] {
        const struct mallinfo2 info = mallinfo2();
        return double(info.uordblks + info.hblkhd);
      };
      const double before = taken();
      const Model<float> model(config, batch, *matmul, params);
      const Recompute recompute = batch == 4 ? Recompute::kNone : Recompute::kSelective;
      const Activations<float> activations(config, batch, recompute, model.input_type());
      const auto planned = double(WorkingBytes(config, batch, recompute, model.input_type()));
      EXPECT_NEAR((taken() - before) / planned, 1, 0.02) << planned;
    }
  }
}
#endif

}  // namespace
}  // namespace weft::trainer::model_test
