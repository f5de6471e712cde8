// Planning large models: what it takes grows as the model does, and a step of thousands of micro-batches has a schedule of
// a few.
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "shard/plan/plan.h"
#include "tests/shard/live_malloc.h"

namespace weft {
namespace {

constexpr weft_shard_preset_t kPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};

constexpr int64_t kBytesMax = 200'000'000;

struct Model {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  int units = 1;
  int microbatches = 1;
  Accumulate accumulate = Accumulate::kNothing;
};

std::string TextOf(const Model& model) {
  return std::string(PresetName(model.preset)) + ", " + std::to_string(model.units) + " units, " +
         std::to_string(model.microbatches) + " micro-batches, accumulating " +
         std::to_string(static_cast<int>(model.accumulate));
}

// Units of a matrix and a vector, every seventh larger.
void Declare(const Model& model, Registry& registry) {
  for (int u = 0; u < model.units; ++u) {
    const std::string name = "blocks." + std::to_string(u);
    const int unit = *registry.BeginUnit(name, PlacementOf(model.preset));
    const int64_t matrix[] = {u % 7 == 0 ? 24 : 16, 32};
    const int64_t vector[] = {32};
    EXPECT_TRUE(registry.AddParam(unit, name + ".weight", matrix, 2, WEFT_FLOAT32).ok());
    EXPECT_TRUE(registry.AddParam(unit, name + ".bias", vector, 1, WEFT_FLOAT32).ok());
    EXPECT_TRUE(registry.SealUnit(unit).ok());
  }
}

struct Cost {
  int64_t peak = 0;    // bytes, the declarations included
  size_t written = 0;  // residencies of the schedule of training
};

// FRACTION gets room for half of the model.
Cost CostOf(const Model& model) {
  const int64_t before = LiveMallocBytes();
  TakeMallocPeak();
  Registry registry;
  Declare(model, registry);
  PlanInput input{.registry = &registry,
                  .member = {.rank = 0, .size = 8},
                  .inner = {.rank = 0, .size = 4},
                  .accumulate = model.accumulate,
                  .microbatches = model.microbatches};
  if (model.preset == WEFT_SHARD_FRACTION) {
    const auto units = static_cast<size_t>(model.units);
    const size_t kept = model.accumulate == Accumulate::kNothing ? 2 * units : units;
    input.budget_bytes = kept * 2500 + 100'000;
  }
  const absl::StatusOr<ContextPlan> plan = MakePlan(input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const int64_t peak = TakeMallocPeak() - before;
  if (!plan.ok()) return {.peak = peak};
  const Schedule& schedule = plan->expected[WEFT_SHARD_TRAIN];
  return {.peak = peak, .written = schedule.gathers.size() + schedule.gradients.size()};
}

constexpr Accumulate kWays[] = {Accumulate::kNothing, Accumulate::kReduced};

class PlanGrowth : public testing::TestWithParam<weft_shard_preset_t> {};

TEST_P(PlanGrowth, IsLinearInUnits) {
  for (const Accumulate accumulate : kWays) {
    Model model{.preset = GetParam(), .units = 1000, .microbatches = 8, .accumulate = accumulate};
    const Cost one = CostOf(model);
    model.units *= 4;
    const Cost four = CostOf(model);
    SCOPED_TRACE(TextOf(model));
    EXPECT_LE(four.written, 5 * one.written);
    // A vector that grows may be twice as large as it has to be.
    if (CountsMalloc()) {
      EXPECT_LE(four.peak, 6 * one.peak);
    }
  }
}

TEST_P(PlanGrowth, TakesTenThousandUnits) {
  if (!CountsMalloc()) GTEST_SKIP() << "its memory is not counted here";
  for (const Accumulate accumulate : kWays) {
    const Model model{
        .preset = GetParam(), .units = 10'000, .microbatches = 8, .accumulate = accumulate};
    SCOPED_TRACE(TextOf(model));
    EXPECT_LE(CostOf(model).peak, kBytesMax);
  }
}

TEST_P(PlanGrowth, TakesThousandsOfMicrobatchesAsAFew) {
  for (const Accumulate accumulate : kWays) {
    Model model{.preset = GetParam(), .units = 100, .microbatches = 64, .accumulate = accumulate};
    const Cost few = CostOf(model);
    model.microbatches = 4096;
    const Cost many = CostOf(model);
    SCOPED_TRACE(TextOf(model));
    EXPECT_LE(many.peak, kBytesMax);
    EXPECT_EQ(many.written, few.written);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, PlanGrowth, testing::ValuesIn(kPresets),
                         [](const auto& info) { return std::string(PresetName(info.param)); });

}  // namespace
}  // namespace weft
