#include "trainer/model.h"

#include <set>
#include <string>

#include "tests/trainer/finite_difference.h"

namespace weft::trainer {
namespace {

// Notes the calls, so that their order can be checked.
class RecordingHooks : public UnitHooks {
 public:
  void PreForward(size_t unit) override { Add("pre_forward", unit); }

  void PostForward(size_t unit) override { Add("post_forward", unit); }

  void PreBackward(size_t unit) override { Add("pre_backward", unit); }

  void PostBackward(size_t unit) override { Add("post_backward", unit); }

  void GradReady(size_t unit, size_t param) override {
    EXPECT_TRUE(ready.emplace(unit, param).second) << unit << " " << param;
    EXPECT_FALSE(closed.contains(unit));
  }

  std::vector<std::string> calls;
  std::set<std::pair<size_t, size_t>> ready;
  std::set<size_t> closed;

 private:
  void Add(const std::string& what, size_t unit) {
    calls.push_back(what + " " + std::to_string(unit));
    if (what == "post_backward") closed.insert(unit);
  }
};

// A model whose parameters are larger than usual, so that every gradient is felt.
struct Tiny {
  ModelConfig config{7, 4, 6, 2, 2};
  std::vector<UnitSpec> units = ModelUnits(config);
  std::vector<std::vector<std::vector<double>>> data, grad;
  std::vector<std::vector<ParamView<double>>> views;
  std::unique_ptr<Matmul<double>> matmul = MakeMatmul<double>(Precision::kFp32);
  RecordingHooks hooks;

  Tiny() {
    uint64_t seed = 1;
    for (const UnitSpec& unit : units) {
      auto& d = data.emplace_back();
      auto& g = grad.emplace_back();
      for (const ParamSpec& param : unit.params) {
        d.push_back(RandomValues(param.Count(), seed++));
        for (double& v : d.back())
          v = v * 0.5 + param.mean;
        g.emplace_back(param.Count());
      }
    }
    for (size_t u = 0; u < units.size(); u++) {
      auto& v = views.emplace_back();
      for (size_t p = 0; p < units[u].params.size(); p++) {
        v.push_back({data[u][p].data(), grad[u][p].data(), data[u][p].size()});
      }
    }
  }
};

const uint8_t kInputs[8] = {0, 3, 6, 2, 5, 5, 1, 0};
const uint8_t kTargets[8] = {3, 6, 2, 1, 5, 1, 0, 4};

TEST(Model, BackwardIsTheGradientOfTheLossForEveryParameter) {
  Tiny tiny;
  Model<double> model(tiny.config, 2, tiny.views, *tiny.matmul, tiny.hooks);
  constexpr double kScale = 0.125;
  model.Forward(kInputs, kTargets, 2, kScale);
  model.Backward(kInputs, 2);
  const auto f = [&] {
    return kScale * model.Forward(kInputs, kTargets, 2, 0);
  };
  for (size_t u = 0; u < tiny.units.size(); u++) {
    for (size_t p = 0; p < tiny.units[u].params.size(); p++) {
      ExpectGradient(tiny.units[u].params[p].name, tiny.data[u][p].data(), tiny.grad[u][p].data(),
                     tiny.data[u][p].size(), f, 40);
    }
  }
}

TEST(Model, ScoreLeavesOutTheContext) {
  Tiny tiny;
  Model<double> model(tiny.config, 2, tiny.views, *tiny.matmul, tiny.hooks);
  const double all = model.Forward(kInputs, kTargets, 2, 0);
  EXPECT_DOUBLE_EQ(model.Score(kInputs, kTargets, 2, 0), all);
  double last = 0;  // of each sequence, from the logits themselves
  for (const size_t b : {0, 1}) {
    const double* row = model.Logits(kInputs + 4 * b) + 3 * tiny.config.vocabulary;
    double sum = 0;
    for (size_t i = 0; i < tiny.config.vocabulary; i++)
      sum += std::exp(row[i]);
    last += std::log(sum) - row[kTargets[4 * b + 3]];
  }
  EXPECT_NEAR(model.Score(kInputs, kTargets, 2, 3), last, 1e-12);
}

TEST(Model, PositionsStartAsSinusoids) {
  const ParamSpec spec = ModelUnits({256, 8, 6, 1, 1})[0].params[1];
  ASSERT_EQ(spec.name, "wpe");
  std::vector<double> wpe(spec.Count());
  InitParam(spec, 1, 1, wpe.data());
  for (size_t t = 0; t < 8; t++) {
    EXPECT_NEAR(wpe[t * 6], spec.sinusoid * std::sin(double(t)), 1e-12);
    EXPECT_NEAR(wpe[t * 6 + 1], spec.sinusoid * std::cos(double(t)), 1e-12);
  }
}

TEST(Model, BackwardAddsToTheGradients) {
  Tiny tiny;
  Model<double> model(tiny.config, 2, tiny.views, *tiny.matmul, tiny.hooks);
  model.Forward(kInputs, kTargets, 2, 1);
  model.Backward(kInputs, 2);
  const auto once = tiny.grad;
  tiny.hooks = {};
  model.Forward(kInputs, kTargets, 2, 1);
  model.Backward(kInputs, 2);
  for (size_t u = 0; u < once.size(); u++) {
    for (size_t p = 0; p < once[u].size(); p++) {
      for (size_t i = 0; i < once[u][p].size(); i++) {
        EXPECT_NEAR(tiny.grad[u][p][i], 2 * once[u][p][i], 1e-12);
      }
    }
  }
}

TEST(Model, AnnouncesEveryGradientOnceAndInsideItsUnit) {
  Tiny tiny;
  Model<double> model(tiny.config, 2, tiny.views, *tiny.matmul, tiny.hooks);
  model.Forward(kInputs, kTargets, 2, 1);
  model.Backward(kInputs, 2);
  const std::vector<std::string> expected = {
      "pre_forward 0",  "post_forward 0",  "pre_forward 1",   "post_forward 1", "pre_forward 2",
      "post_forward 2", "pre_forward 3",   "post_forward 3",  "pre_forward 0",  "post_forward 0",
      "pre_backward 0", "pre_backward 3",  "post_backward 3", "pre_backward 2", "post_backward 2",
      "pre_backward 1", "post_backward 1", "post_backward 0"};
  EXPECT_EQ(tiny.hooks.calls, expected);
  EXPECT_EQ(tiny.hooks.ready.size(), 2u + 2 * 12 + 2);
}

TEST(Model, LaterBytesDoNotChangeEarlierLogits) {
  Tiny tiny;
  Model<double> model(tiny.config, 2, tiny.views, *tiny.matmul, tiny.hooks);
  const uint8_t a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 6, 0};
  const double* logits = model.Logits(a);
  const std::vector<double> before(logits, logits + 2 * tiny.config.vocabulary);
  logits = model.Logits(b);
  EXPECT_EQ(before, std::vector<double>(logits, logits + 2 * tiny.config.vocabulary));
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

}  // namespace
}  // namespace weft::trainer
