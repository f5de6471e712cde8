#include "trainer/optimizer.h"

#include <cmath>

#include "tests/trainer/finite_difference.h"

namespace weft::trainer {
namespace {

struct TwoParams {
  std::vector<UnitSpec> units = {{"u", {{"w", {2, 3}, 0, 1, true}, {"b", {3}, 0, 0, false}}}};
  std::vector<float> w = std::vector<float>(6, 1), dw = std::vector<float>(6, 3);
  std::vector<float> b = std::vector<float>(3, 1), db = std::vector<float>(3, 4);
  std::vector<std::vector<ParamView<float>>> views = {
      {{w.data(), dw.data(), 6}, {b.data(), db.data(), 3}}};
};

TEST(Adamw, ReturnsTheNormBeforeClipping) {
  TwoParams p;
  Adamw optimizer(p.units, p.views);
  EXPECT_NEAR(optimizer.Step(0.1, 1.0, 0), std::sqrt(6 * 9.0 + 3 * 16.0), 1e-6);
}

TEST(Adamw, FirstStepMovesEveryElementByTheRate) {
  TwoParams p;
  Adamw optimizer(p.units, p.views);
  optimizer.Step(0.1, 1.0, 0);
  for (const float v : p.w)
    EXPECT_NEAR(v, 0.9, 1e-6);
  for (const float v : p.b)
    EXPECT_NEAR(v, 0.9, 1e-6);
}

TEST(Adamw, DecaysMatricesOnly) {
  TwoParams p;
  for (auto* grad : {&p.dw, &p.db})
    std::fill(grad->begin(), grad->end(), 0.0f);
  Adamw optimizer(p.units, p.views);
  optimizer.Step(0.1, 1.0, 0.5);
  for (const float v : p.w)
    EXPECT_NEAR(v, 1 - 0.1 * 0.5, 1e-6);
  for (const float v : p.b)
    EXPECT_EQ(v, 1);
}

TEST(Adamw, ClippingScalesTheGradientNotTheStepOfAdam) {
  // With the gradient clipped to norm c, the second moment after one step is that of the clipped
  // gradient; a second, tiny gradient shows it through the size of the step.
  TwoParams clipped, scaled;
  for (float& v : scaled.dw)
    v *= 0.1f;
  for (float& v : scaled.db)
    v *= 0.1f;
  const double norm = std::sqrt(6 * 9.0 + 3 * 16.0);
  Adamw a(clipped.units, clipped.views), b(scaled.units, scaled.views);
  a.Step(0.1, 0.1 * norm, 0);
  b.Step(0.1, 0, 0);
  for (auto* p : {&clipped, &scaled}) {
    std::fill(p->dw.begin(), p->dw.end(), 0.01f);
    std::fill(p->db.begin(), p->db.end(), 0.01f);
  }
  a.Step(0.1, 0, 0);
  b.Step(0.1, 0, 0);
  for (size_t i = 0; i < clipped.w.size(); i++)
    EXPECT_NEAR(clipped.w[i], scaled.w[i], 1e-6);
}

}  // namespace
}  // namespace weft::trainer
