// weft_shard_norm_sum and WEFT_SHARD_PARAM_NOT_COUNTED as a program of two pipeline stages calls
// them: one norm and one clip, although each stage has a context and a group of its own.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_norm_parts_test {
namespace {

constexpr int64_t kCount = 5;
constexpr float kOfTable = 3, kOfHead = 4;  // every element of their gradients
// Of ten elements; the second stage's copy of the table would make it sqrt(170).
const double kWhole = std::sqrt(125.0);

// A stage on one rank: the first has the table, the second a head and a copy of the table.
class Stage {
 public:
  Stage(weft_group_t data, bool second, bool by_units) : second_(second) {
    EXPECT_EQ(weft_mesh_create(data, nullptr, &mesh_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_context_create(mesh_, nullptr, &context_), WEFT_SUCCESS);
    weft_optimizer_config_t optimizer = {};
    optimizer.struct_size = sizeof(optimizer);
    optimizer.kind = WEFT_OPTIMIZER_SGD;
    EXPECT_EQ(weft_shard_context_optimizer(context_, &optimizer), WEFT_SUCCESS);
    const uint32_t of_copy = WEFT_SHARD_PARAM_NOT_COUNTED;
    constexpr size_t kSize = sizeof(weft_shard_param_config_t);
    const weft_shard_param_config_t configs[] = {
        {kSize, "table", &kCount, 1, WEFT_FLOAT32, second ? of_copy : 0},
        {kSize, "head", &kCount, 1, WEFT_FLOAT32, 0}};
    const size_t count = second ? 2 : 1;
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    if (by_units) {
      const weft_shard_grouping_t grouping = {sizeof(grouping), nullptr, 1 << 20};
      weft_shard_unit_t units[2] = {};
      size_t unit_count = 2;
      EXPECT_EQ(weft_shard_add_units(context_, configs, count, &grouping, &policy, params_, units,
                                     &unit_count),
                WEFT_SUCCESS)
          << weft_last_error();
      EXPECT_EQ(unit_count, 1U);
      unit_ = units[0];
    } else {
      EXPECT_EQ(weft_shard_unit_begin(context_, "unit", &policy, &unit_), WEFT_SUCCESS);
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(weft_shard_unit_add_param(unit_, &configs[i], &params_[i]), WEFT_SUCCESS);
      EXPECT_EQ(weft_shard_unit_seal(unit_), WEFT_SUCCESS);
    }
    weft_shard_param_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_shard_param_info(params_[0], &info), WEFT_SUCCESS);
    EXPECT_EQ(info.flags, configs[0].flags);
    EXPECT_EQ(weft_shard_context_finalize(context_, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  ~Stage() {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
  }

  weft_shard_norm_t Backward(float factor = 1) {
    EXPECT_EQ(StepBegin(context_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_microbatch_begin(context_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(unit_, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_post_forward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_backward(unit_, nullptr), WEFT_SUCCESS);
    for (const auto& [param, value] :
         {std::pair(params_[0], kOfTable), std::pair(params_[1], kOfHead)}) {
      if (param == nullptr) continue;
      const std::vector<float> gradient(kCount, value * factor);
      EXPECT_EQ(weft_shard_grad_ready(param, gradient.data(), nullptr), WEFT_SUCCESS);
    }
    EXPECT_EQ(weft_shard_post_backward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_microbatch_end(context_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_finish(context_, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    weft_shard_norm_t norm = {};
    norm.struct_size = sizeof(norm);
    EXPECT_EQ(weft_shard_gradient_norm(context_, nullptr, &norm), WEFT_SUCCESS);
    return norm;
  }

  weft_shard_update_result_t Step(const weft_shard_norm_t& norm, uint64_t requests = 0) {
    weft_shard_update_t update = {};
    update.struct_size = sizeof(update);
    update.learning_rate = 1;
    update.norm_max = 1;
    update.norm = &norm;
    update.requests = requests;
    weft_shard_update_result_t result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(weft_shard_optimizer_step(context_, &update, &result), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_step_end(context_), WEFT_SUCCESS) << weft_last_error();
    return result;
  }

  float Value(int param) const {
    std::vector<float> values(kCount);
    EXPECT_EQ(ReadValues(params_[param], values.data()), WEFT_SUCCESS) << weft_last_error();
    return values[0];
  }

  bool second() const { return second_; }

 private:
  const bool second_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  weft_shard_unit_t unit_ = nullptr;
  weft_shard_param_t params_[2] = {};
};

weft_group_t SplitOff(weft_group_t job, int color) {
  weft_group_t part = nullptr;
  EXPECT_EQ(weft_group_split(job, color, 0, nullptr, &part), WEFT_SUCCESS) << weft_last_error();
  return part;
}

// Ranks 0 and 2 have the first stage, 1 and 3 the second.
template <typename Body>
void OnStages(bool by_units, const Body& body) {
  OnLocalRanks(4, [&](int rank, weft_group_t job) {
    weft_group_t const data = SplitOff(job, rank % 2), parts = SplitOff(job, rank / 2);
    {
      Stage stage(data, rank % 2 == 1, by_units);
      body(rank, stage, parts, job);
    }
    EXPECT_EQ(weft_group_destroy(parts), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(data), WEFT_SUCCESS);
  });
}

TEST(NormOfStages, ClipsBothByTheNormOfAllOnce) {
  for (const bool by_units : {false, true}) {
    OnStages(by_units, [](int, Stage& stage, weft_group_t parts, weft_group_t) {
      weft_shard_norm_t norm = stage.Backward();
      EXPECT_DOUBLE_EQ(norm.norm, stage.second() ? std::sqrt(80.0) : std::sqrt(45.0));
      ASSERT_EQ(weft_shard_norm_sum(&norm, parts, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(norm.norm, kWhole);
      EXPECT_EQ(stage.Step(norm).grad_norm, kWhole);
      const double clip = 1 / (kWhole + 1e-6);
      EXPECT_FLOAT_EQ(stage.Value(0), static_cast<float>(-kOfTable * clip));
      if (stage.second()) {
        EXPECT_FLOAT_EQ(stage.Value(1), static_cast<float>(-kOfHead * clip));
      }
    });
  }
}

TEST(NormOfStages, AnInfinityInOneSkipsBoth) {
  OnStages(false, [](int rank, Stage& stage, weft_group_t parts, weft_group_t) {
    weft_shard_norm_t norm = stage.Backward(rank == 3 ? INFINITY : 1);
    ASSERT_EQ(weft_shard_norm_sum(&norm, parts, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(norm.nonfinite, kCount);  // the head's; the copy's are not counted
    const weft_shard_update_result_t result = stage.Step(norm);
    EXPECT_EQ(result.skipped, 1);
    EXPECT_EQ(result.nonfinite, kCount);
    EXPECT_EQ(stage.Value(0), 0);
  });
}

// As docs/sharding.md says: requests reach the ranks of the context's mesh, an all_reduce of the bits
// those of the job.
TEST(NormOfStages, RequestsReachTheOtherStageByAnAllReduce) {
  OnStages(false, [](int rank, Stage& stage, weft_group_t parts, weft_group_t job) {
    weft_shard_norm_t norm = stage.Backward();
    ASSERT_EQ(weft_shard_norm_sum(&norm, parts, nullptr), WEFT_SUCCESS) << weft_last_error();
    uint64_t requests = stage.Step(norm, rank == 3 ? 4 : 0).requests;
    EXPECT_EQ(requests, stage.second() ? 4U : 0U);
    ASSERT_EQ(
        weft_all_reduce(&requests, &requests, 1, WEFT_UINT64, WEFT_BIT_OR, job, nullptr, nullptr),
        WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(requests, 4U);
  });
}

weft_shard_norm_t NormOfOne(double loss_scale) {
  weft_shard_norm_t norm = {};
  norm.struct_size = sizeof(norm);
  norm.loss_scale = loss_scale;
  norm.squares[33] = 1 << 18;
  return norm;
}

TEST(NormSum, AFailureLeavesTheNormAsItWas) {
  OnLocalRanks(3, [](int rank, weft_group_t group) {
    weft_shard_norm_t norm = NormOfOne(rank == 1 ? 2 : 1);
    const weft_shard_norm_t before = norm;
    EXPECT_EQ(weft_shard_norm_sum(&norm, group, nullptr), WEFT_MISMATCH);
    const std::string sentence = weft_last_error();
    EXPECT_NE(sentence.find("rank 1 have loss scale 2, those of ranks 0, 2 have 1"),
              std::string::npos)
        << sentence;
    weft_error_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
    EXPECT_EQ(info.rank, 1);
    EXPECT_STREQ(info.operation, "shard_norm_sum");
    EXPECT_EQ(std::memcmp(&norm, &before, sizeof(norm)), 0);
    EXPECT_EQ(weft_group_abort(group, "enough"), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_norm_sum(&norm, group, nullptr), WEFT_ABORTED);
    EXPECT_EQ(std::memcmp(&norm, &before, sizeof(norm)), 0);
  });
}

TEST(NormSum, HasTheDeadlineOfTheGroup) {
  const weft_group_config_t config = ConfigNamed("late", 100'000'000);
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft_shard_norm_t norm = NormOfOne(1);
  const weft_shard_norm_t before = norm;
  EXPECT_EQ(weft_shard_norm_sum(&norm, groups[0], nullptr), WEFT_TIMEOUT);
  EXPECT_NE(std::string(weft_last_error()).find("shard_norm_sum"), std::string::npos)
      << weft_last_error();
  EXPECT_EQ(std::memcmp(&norm, &before, sizeof(norm)), 0);
  for (const weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::shard_norm_parts_test
