// weft_shard_gradient_norm: one norm for a model in several contexts, and for optimizers of the caller's own.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_norm_test {
namespace {

constexpr double kRate = 0x1p-5;

weft_shard_norm_t EmptyNorm() {
  weft_shard_norm_t norm = {};
  norm.struct_size = sizeof(norm);
  return norm;
}

weft_shard_update_t Update(double norm_max = 0) {
  weft_shard_update_t update = {};
  update.struct_size = sizeof(update);
  update.learning_rate = kRate;
  update.norm_max = norm_max;
  return update;
}

// Units of one param each, of these many elements, on one rank of a group.
class Model {
 public:
  Model(weft_group_t group, weft_shard_preset_t preset, const std::vector<size_t>& counts,
        bool optimizer = true) {
    EXPECT_EQ(weft_mesh_create(group, nullptr, &mesh_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_context_create(mesh_, nullptr, &context_), WEFT_SUCCESS);
    if (optimizer) {
      EXPECT_EQ(weft_shard_context_optimizer(context_, nullptr), WEFT_SUCCESS) << weft_last_error();
    }
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = preset;
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string name = "p" + std::to_string(i);
      weft_shard_unit_t unit = nullptr;
      weft_shard_param_t param = nullptr;
      const auto shape = static_cast<int64_t>(counts[i]);
      EXPECT_EQ(weft_shard_unit_begin(context_, name.c_str(), &policy, &unit), WEFT_SUCCESS);
      EXPECT_EQ(AddParam(unit, name.c_str(), &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
      EXPECT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
      units_.push_back({unit, param, counts[i]});
    }
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    EXPECT_EQ(weft_shard_context_finalize(context_, &plan), WEFT_SUCCESS) << weft_last_error();
  }

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  ~Model() {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
  }

  weft_shard_context_t context() const { return context_; }

  // A step up to finish; param i has gradients that `salt + i` and the rank make, times `factor`.
  void Backward(int rank, size_t salt, float factor = 1) {
    EXPECT_EQ(StepBegin(context_, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(context_, 0, 1), WEFT_SUCCESS);
    for (const Unit& unit : units_) {
      EXPECT_EQ(weft_shard_pre_forward(unit.unit, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_shard_post_forward(unit.unit, nullptr), WEFT_SUCCESS);
    }
    for (size_t i = units_.size(); i-- > 0;) {
      const Unit& unit = units_[i];
      std::vector<float> gradient(unit.count);
      for (size_t at = 0; at < gradient.size(); ++at) {
        const auto mixed = static_cast<float>((at * 37 + (salt + i) * 11 + 5) % 101) - 50;
        gradient[at] = mixed * factor * (rank == 0 ? 0.25F : 0.5F);
      }
      EXPECT_EQ(weft_shard_pre_backward(unit.unit, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_shard_grad_ready(unit.param, gradient.data(), nullptr), WEFT_SUCCESS);
      EXPECT_EQ(weft_shard_post_backward(unit.unit, nullptr), WEFT_SUCCESS);
    }
    EXPECT_EQ(weft_shard_microbatch_end(context_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_finish(context_, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  weft_shard_norm_t Norm() const {
    weft_shard_norm_t norm = EmptyNorm();
    EXPECT_EQ(weft_shard_gradient_norm(context_, nullptr, &norm), WEFT_SUCCESS)
        << weft_last_error();
    return norm;
  }

  weft_shard_update_result_t Step(const weft_shard_update_t& update) const {
    weft_shard_update_result_t result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(weft_shard_optimizer_step(context_, &update, &result), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_step_end(context_), WEFT_SUCCESS);
    return result;
  }

  void AddWeightsTo(std::vector<float>* weights) const {
    for (const Unit& unit : units_) {
      std::vector<float> values(unit.count);
      EXPECT_EQ(ReadValues(unit.param, values.data()), WEFT_SUCCESS) << weft_last_error();
      weights->insert(weights->end(), values.begin(), values.end());
    }
  }

  std::vector<float> Weights() const {
    std::vector<float> weights;
    AddWeightsTo(&weights);
    return weights;
  }

 private:
  struct Unit {
    weft_shard_unit_t unit;
    weft_shard_param_t param;
    size_t count;
  };

  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  std::vector<Unit> units_;
};

class ShardNorm : public testing::TestWithParam<weft_shard_preset_t> {
 protected:
  static constexpr int kRanks = 2;

  // body(rank, group, another group of the same ranks)
  template <typename Body>
  static void OnRanks(const Body& body) {
    const weft_group_config_t config = ConfigNamed("norm"), second = ConfigNamed("second");
    weft_group_t groups[kRanks] = {}, others[kRanks] = {};
    ASSERT_EQ(weft_group_create_local(kRanks, &config, groups), WEFT_SUCCESS) << weft_last_error();
    ASSERT_EQ(weft_group_create_local(kRanks, &second, others), WEFT_SUCCESS) << weft_last_error();
    OnThreads(kRanks, [&](int rank) { body(rank, groups[rank], others[rank]); });
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS);
      EXPECT_EQ(weft_group_destroy(others[rank]), WEFT_SUCCESS);
    }
  }
};

// Clipped by the norm of both, two contexts become what one is, to the bit.
TEST_P(ShardNorm, OfTwoContextsIsThatOfOne) {
  OnRanks([](int rank, weft_group_t group, weft_group_t other) {
    std::vector<float> together, apart;
    weft_shard_norm_t whole = EmptyNorm(), sum = EmptyNorm();
    {
      Model one(group, GetParam(), {1'000, 77, 300});
      one.Backward(rank, 0);
      whole = one.Norm();
      const weft_shard_update_result_t result = one.Step(Update(1));
      EXPECT_EQ(result.grad_norm, whole.norm);
      together = one.Weights();
    }
    Model first(group, GetParam(), {1'000}), second(other, GetParam(), {77, 300});
    first.Backward(rank, 0);
    second.Backward(rank, 1);
    sum = first.Norm();
    const weft_shard_norm_t added = second.Norm();
    EXPECT_LT(sum.norm, whole.norm);
    EXPECT_EQ(weft_shard_norm_add(&sum, &added), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(sum.norm, whole.norm);
    EXPECT_EQ(std::memcmp(sum.squares, whole.squares, sizeof(sum.squares)), 0);
    weft_shard_update_t update = Update(1);
    update.norm = &sum;
    EXPECT_EQ(first.Step(update).grad_norm, whole.norm);
    EXPECT_EQ(second.Step(update).grad_norm, whole.norm);
    first.AddWeightsTo(&apart);
    second.AddWeightsTo(&apart);
    EXPECT_EQ(apart, together);
  });
}

TEST_P(ShardNorm, IsThereWithoutAnOptimizer) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    weft_shard_norm_t with = EmptyNorm();
    {
      Model model(group, GetParam(), {500, 3});
      model.Backward(rank, 2);
      with = model.Norm();
      (void)model.Step(Update());
    }
    Model model(group, GetParam(), {500, 3}, /*optimizer=*/false);
    model.Backward(rank, 2);
    const weft_shard_norm_t without = model.Norm();
    EXPECT_GT(without.norm, 0);
    EXPECT_EQ(without.norm, with.norm);
    EXPECT_EQ(without.loss_scale, 1);
    EXPECT_EQ(model.Norm().norm, with.norm);
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_SUCCESS) << weft_last_error();
    weft_shard_norm_t late = EmptyNorm();
    EXPECT_EQ(weft_shard_gradient_norm(model.context(), nullptr, &late), WEFT_BAD_STATE);
  });
}

// A power of two, so that the two orders of multiplying round alike.
TEST_P(ShardNorm, AFactorIsThatOfTheGradients) {
  OnRanks([](int rank, weft_group_t group, weft_group_t other) {
    Model multiplied(group, GetParam(), {300, 20}), plain(other, GetParam(), {300, 20});
    for (int step = 0; step < 3; ++step) {
      multiplied.Backward(rank, 4, 0.125F);
      plain.Backward(rank, 4);
      const double norm = multiplied.Step(Update(1)).grad_norm;
      weft_shard_update_t update = Update(1);
      update.gradient_factor = 0.125;
      EXPECT_EQ(plain.Step(update).grad_norm, norm);
      EXPECT_EQ(plain.Weights(), multiplied.Weights());
    }
  });
}

TEST_P(ShardNorm, PassedByOneRankOnlyIsNamedAndUpdatesNothing) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    Model model(group, GetParam(), {300});
    const std::vector<float> before = model.Weights();
    model.Backward(rank, 1);
    const weft_shard_norm_t norm = model.Norm();
    weft_shard_update_t update = Update();
    if (rank == 0) update.norm = &norm;
    EXPECT_EQ(weft_shard_optimizer_step(model.context(), &update, nullptr), WEFT_MISMATCH);
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(model.Weights(), before);
    model.Backward(rank, 2);
    EXPECT_EQ(model.Step(Update()).update_count, 1);
  });
}

TEST_P(ShardNorm, ADroppedStepChangesNothing) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    Model model(group, GetParam(), {300});
    const std::vector<float> before = model.Weights();
    model.Backward(rank, 1, INFINITY);
    EXPECT_GT(model.Norm().nonfinite, 0);
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_BAD_STATE);
    EXPECT_EQ(weft_shard_drop_gradients(model.context(), nullptr), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(model.Weights(), before);
    model.Backward(rank, 1);
    EXPECT_EQ(model.Step(Update()).update_count, 1);
    EXPECT_NE(model.Weights(), before);
  });
}

// What a program may leave in a number by mistake sends nothing: the call is made again as it should be.
TEST_P(ShardNorm, AWrongNumberLeavesTheStepAsItIs) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    Model model(group, GetParam(), {300});
    model.Backward(rank, 1);
    weft_shard_norm_t norm = model.Norm();
    norm.squares[WEFT_SHARD_NORM_WORDS - 4] = -1;
    for (const double number : {-1.0, -0x1p-1074, double{NAN}, double{INFINITY}}) {
      weft_shard_update_t rate = Update(), most = Update(number), factor = Update(), sum = Update();
      rate.learning_rate = factor.gradient_factor = number;
      sum.norm = &norm;
      for (const weft_shard_update_t& update : {rate, most, factor, sum}) {
        EXPECT_EQ(weft_shard_optimizer_step(model.context(), &update, nullptr),
                  WEFT_INVALID_ARGUMENT);
      }
    }
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_BAD_STATE);
    EXPECT_EQ(model.Step(Update()).update_count, 1);
  });
}

// The bits of both ranks, on both, also of a step that updates nothing; a caller of before the field gets none.
TEST_P(ShardNorm, RequestsOfAnyRankReachAll) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    Model model(group, GetParam(), {300});
    for (const float factor : {1.F, INFINITY}) {
      weft_shard_update_t update = Update();
      update.requests = rank == 0 ? 5 : uint64_t{1} << 63;
      model.Backward(rank, 1, factor);
      EXPECT_EQ(model.Step(update).requests, 5 | uint64_t{1} << 63);
      update.struct_size = offsetof(weft_shard_update_t, requests);
      model.Backward(rank, 1);
      EXPECT_EQ(model.Step(update).requests, 0U);
    }
  });
}

// What another context has found skips this one's update, too.
TEST_P(ShardNorm, OneContextsOverflowSkipsBoth) {
  OnRanks([](int rank, weft_group_t group, weft_group_t other) {
    Model good(group, GetParam(), {300}), bad(other, GetParam(), {40});
    const std::vector<float> before = good.Weights();
    good.Backward(rank, 0);
    bad.Backward(rank, 0, rank == 1 ? INFINITY : 1);
    weft_shard_norm_t sum = good.Norm();
    const weft_shard_norm_t added = bad.Norm();
    EXPECT_GT(added.nonfinite, 0);
    EXPECT_EQ(weft_shard_norm_add(&sum, &added), WEFT_SUCCESS);
    weft_shard_update_t update = Update();
    update.norm = &sum;
    for (Model* const model : {&good, &bad}) {
      const weft_shard_update_result_t result = model->Step(update);
      EXPECT_EQ(result.skipped, 1);
      EXPECT_EQ(result.nonfinite, sum.nonfinite);
    }
    EXPECT_EQ(good.Weights(), before);
  });
}

TEST_P(ShardNorm, AnUpdateThatDiffersIsAMismatch) {
  OnRanks([](int rank, weft_group_t group, weft_group_t) {
    Model model(group, GetParam(), {300});
    model.Backward(rank, 1);
    weft_shard_update_t update = Update();
    update.gradient_factor = rank == 0 ? 0.5 : 0.25;
    EXPECT_EQ(weft_shard_optimizer_step(model.context(), &update, nullptr), WEFT_MISMATCH);
    const std::string sentence = weft_last_error();
    EXPECT_NE(sentence.find("gradient_factor 0.5"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("gradient_factor 0.25"), std::string::npos) << sentence;
    EXPECT_EQ(weft_shard_step_end(model.context()), WEFT_SUCCESS) << weft_last_error();
  });
}

INSTANTIATE_TEST_SUITE_P(Presets, ShardNorm,
                         testing::Values(WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                         WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD));

}  // namespace
}  // namespace weft::test::shard_norm_test
