// What a rank requests with an update, every rank hears in the same step: each bit, under each preset, for each number of ranks,
// whatever becomes of the step, and without a collective more.
#include "shard/optimizer/update_requests.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/comm/kernels/reference.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::update_requests_test {
namespace {

// Ranks that have `of_some` and ranks that have `of_others`, added as the sum of int64 that wraps.
uint64_t HeardOf(int ranks, int some, uint64_t of_some, uint64_t of_others) {
  constexpr int64_t kBefore = 4711;  // belongs to somebody else
  std::vector<int64_t> a = {kBefore};
  std::vector<int64_t> b = {kBefore};
  AppendRequests(of_some, ranks, a);
  AppendRequests(of_others, ranks, b);
  EXPECT_EQ(a.size(), b.size());
  std::vector<int64_t> sum = {kBefore};
  for (size_t i = 1; i < a.size(); ++i) {
    sum.push_back(
        static_cast<int64_t>(static_cast<uint64_t>(a[i]) * static_cast<uint64_t>(some) +
                             static_cast<uint64_t>(b[i]) * static_cast<uint64_t>(ranks - some)));
  }
  const uint64_t heard = TakeRequests(sum, ranks);
  EXPECT_EQ(sum, std::vector<int64_t>{kBefore});
  return heard;
}

constexpr int kNumbersOfRanks[] = {1,  2,  3,  4,   5,   7,    8,     9,     15,
                                   16, 63, 64, 127, 128, 1000, 32767, 65535, 65536};

TEST(UpdateRequests, SumsOverRanksHaveTheBitsOfAll) {
  std::mt19937_64 random(TestSeed());
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const int ranks : kNumbersOfRanks) {
    SCOPED_TRACE(StrCat(ranks, " ranks"));
    EXPECT_EQ(HeardOf(ranks, 0, 0, 0), 0U);
    EXPECT_EQ(HeardOf(ranks, 0, 0, ~uint64_t{0}), ~uint64_t{0});
    for (int bit = 0; bit < 64; ++bit) {
      const uint64_t one = uint64_t{1} << bit;
      EXPECT_EQ(HeardOf(ranks, 1, one, 0), one);
      EXPECT_EQ(HeardOf(ranks, 0, 0, one), one);
    }
    for (int trial = 0; trial < 200; ++trial) {
      const int some = static_cast<int>(random() % static_cast<uint64_t>(ranks + 1));
      const uint64_t of_some = random() & random();
      const uint64_t of_others = random() & random();
      const uint64_t expected = (some > 0 ? of_some : 0) | (some < ranks ? of_others : 0);
      EXPECT_EQ(HeardOf(ranks, some, of_some, of_others), expected);
    }
  }
}

std::vector<ModelParam> Model() {
  return {{"embed", "embed.tokens", {19, 23}, WEFT_FLOAT32},
          {"block", "block.weight", {31, 17}, WEFT_FLOAT32},
          {"head", "head.bias", {201}, WEFT_FLOAT32}};
}

// What becomes of a step.
enum class Kind { kClipped, kNoNorm, kNotFinite, kNormApart };

constexpr Kind kKinds[] = {Kind::kClipped, Kind::kNoNorm, Kind::kNotFinite, Kind::kNormApart};

// In step `step` of `ranks` ranks; most pass nothing, some several bits.
uint64_t RequestsOf(uint64_t seed, int step, int rank) {
  const uint64_t hash = Mix(Mix(seed + static_cast<uint64_t>(step)) + static_cast<uint64_t>(rank));
  if (hash % 3 != 0) return 0;
  return uint64_t{1} << (hash >> 8) % 64 | (hash >> 16 & hash >> 24);
}

absl::Status Step(Context& context, ProcessGroup& group, Kind kind, uint64_t requests,
                  uint64_t expected, uint64_t* collectives) {
  const std::vector<ModelParam> model = Model();
  const float value = kind == Kind::kNotFinite ? std::numeric_limits<float>::infinity() : 0.25F;
  WEFT_RETURN_IF_ERROR(RunGradientStep(context, model, [&](int unit) {
    const std::vector<float> gradient(model[static_cast<size_t>(unit)].count(), value);
    return context.GradReady(unit, gradient.data());
  }));
  weft_shard_norm_t norm{};
  weft_shard_update_t update = UpdateWith(0.01, kind == Kind::kClipped ? 1 : 0);
  update.requests = requests;
  if (kind == Kind::kNormApart) {
    WEFT_ASSIGN_OR_RETURN(norm, context.optimizer().GradientNorm());
    update.norm = &norm;
  }
  const uint64_t before = group.sequence();
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t result, context.OptimizerStep(update));
  *collectives = group.sequence() - before;
  EXPECT_EQ(result.requests, expected);
  EXPECT_EQ(result.skipped, kind == Kind::kNotFinite ? 1 : 0);
  return context.StepEnd();
}

absl::Status Train(std::shared_ptr<ProcessGroup> group, weft_shard_preset_t preset,
                   weft_optimizer_kind_t optimizer, uint64_t seed) {
  const int ranks = group->size();
  const int rank = group->rank();
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(group, {.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 512}},
                  SizesOfAxes(preset, ranks)));
  WEFT_RETURN_IF_ERROR(
      context->SetOptimizer({.kind = optimizer, .nonfinite = WEFT_NONFINITE_SKIP}));
  WEFT_RETURN_IF_ERROR(Declare(*context, Model(), PlacementOf(preset)));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  int step = 0;
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(StrCat("rank ", rank, ", kind ", static_cast<int>(kind)));
    uint64_t quiet = 0;
    WEFT_RETURN_IF_ERROR(Step(*context, *group, kind, 0, 0, &quiet));
    for (int more = 0; more < 2; ++more, ++step) {
      uint64_t expected = 0;
      for (int other = 0; other < ranks; ++other)
        expected |= RequestsOf(seed, step, other);
      uint64_t collectives = 0;
      WEFT_RETURN_IF_ERROR(
          Step(*context, *group, kind, RequestsOf(seed, step, rank), expected, &collectives));
      EXPECT_EQ(collectives, quiet);
    }
  }
  return absl::OkStatus();
}

TEST(UpdateRequests, OfAnyRankAreHeardByAllInTheSameStep) {
  SCOPED_TRACE(StrCat("seed ", TestSeed()));
  for (const int ranks : kRankSet) {
    if (LeftOut(GroupKind::kLocal, ranks)) continue;
    for (const weft_shard_preset_t preset : PresetsFor(ranks)) {
      for (const weft_optimizer_kind_t kind : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_LAMB}) {
        if (kind == WEFT_OPTIMIZER_LAMB && ranks != 4) continue;  // it has one more all_reduce
        SCOPED_TRACE(
            StrCat(PresetName(preset), ", ", ranks, " ranks, optimizer ", static_cast<int>(kind)));
        ExpectAllOk(
            RunRanks(GroupKind::kLocal, ranks, [&](int, std::shared_ptr<ProcessGroup> group) {
              return Train(std::move(group), preset, kind, TestSeed());
            }));
      }
    }
  }
}

// The other ranks' request comes with the next step, in which all pass it again.
TEST(UpdateRequests, AreNotToldByAStepThatFails) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "u", {200}).status());
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        const std::vector<ModelParam> model = {{"u", "u.weight", {200}, WEFT_FLOAT32}};
        const std::vector<float> gradient(200, 1);
        for (const bool fails : {true, false}) {
          WEFT_RETURN_IF_ERROR(RunGradientStep(
              *context, model, [&](int) { return context->GradReady(0, gradient.data()); }));
          weft_shard_update_t update = UpdateWith(fails && rank == 2 ? 0.5 : 0.25);
          update.requests = rank == 1 ? 6 : 0;
          const absl::StatusOr<weft_shard_update_result_t> result = context->OptimizerStep(update);
          EXPECT_EQ(ResultOf(result.status()), fails ? WEFT_MISMATCH : WEFT_SUCCESS);
          EXPECT_EQ(result.ok() ? result->requests : 0, fails ? 0U : 6U);
          WEFT_RETURN_IF_ERROR(context->StepEnd());
        }
        return absl::OkStatus();
      }));
}

}  // namespace
}  // namespace weft::update_requests_test
