// Param groups of the C interface: inheriting, reading back, schedules, tied params, and the caller's own optimizer.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/context_owner.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::param_groups_test {
namespace {

using Group = weft_shard_param_group_t;

// Units "a", "b" and "c" of one param of 300 float32, and a param of "c" that is a's; on one rank of a group.
class Model : public ContextOwner {
 public:
  static constexpr size_t kCount = 300;

  Model(weft_group_t group, weft_optimizer_kind_t kind, weft_shard_preset_t preset)
      : ContextOwner(group) {
    weft_optimizer_config_t config = {};
    config.struct_size = sizeof(config);
    config.kind = kind;
    config.beta2 = 0.95;
    config.weight_decay = 0.25;
    EXPECT_EQ(weft_shard_context_optimizer(context, &config), WEFT_SUCCESS) << weft_last_error();
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = preset;
    const int64_t shape = kCount;
    for (const char* const name : {"a", "b", "c"}) {
      weft_shard_unit_t unit = nullptr;
      weft_shard_param_t param = nullptr;
      EXPECT_EQ(weft_shard_unit_begin(context, name, &policy, &unit), WEFT_SUCCESS);
      EXPECT_EQ(AddParam(unit, name, &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
      if (units.size() == 2) {
        EXPECT_EQ(weft_shard_unit_tie_param(unit, "tied", params[0], &tied), WEFT_SUCCESS);
      }
      EXPECT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
      units.push_back(unit);
      params.push_back(param);
    }
  }

  weft_shard_plan_t Finalize() const {
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    EXPECT_EQ(weft_shard_context_finalize(context, &plan), WEFT_SUCCESS) << weft_last_error();
    return plan;
  }

  // A step up to finish, whose gradients are all `gradient`.
  void Backward(float gradient) const {
    EXPECT_EQ(StepBegin(context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(context, 0, 1), WEFT_SUCCESS);
    for (weft_shard_unit_t unit : units) {
      EXPECT_EQ(weft_shard_pre_forward(unit, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_shard_post_forward(unit, nullptr), WEFT_SUCCESS);
    }
    const std::vector<float> gradients(kCount, gradient);
    for (size_t i = units.size(); i-- > 0;) {
      EXPECT_EQ(weft_shard_pre_backward(units[i], nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_shard_grad_ready(params[i], gradients.data(), nullptr), WEFT_SUCCESS);
      EXPECT_EQ(weft_shard_post_backward(units[i], nullptr), WEFT_SUCCESS);
    }
    EXPECT_EQ(weft_shard_microbatch_end(context, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_finish(context, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  weft_shard_update_result_t Update(const weft_shard_update_t& update) const {
    weft_shard_update_result_t result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(weft_shard_optimizer_step(context, &update, &result), WEFT_SUCCESS)
        << weft_last_error();
    return result;
  }

  std::vector<float> Read(size_t param) const {
    std::vector<float> values(kCount);
    EXPECT_EQ(ReadValues(params[param], values.data()), WEFT_SUCCESS) << weft_last_error();
    return values;
  }

  int GroupOf(weft_shard_param_t param) const {
    weft_shard_param_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_shard_param_info(param, &info), WEFT_SUCCESS);
    return info.group;
  }

  std::vector<weft_shard_unit_t> units;
  std::vector<weft_shard_param_t> params;
  weft_shard_param_t tied = nullptr;
};

class ShardParamGroups : public testing::Test {
 protected:
  template <typename Body>
  static void OnRanks(int ranks, const Body& body) {
    const weft_group_config_t config = ConfigNamed("groups");
    std::vector<weft_group_t> groups(static_cast<size_t>(ranks));
    ASSERT_EQ(weft_group_create_local(ranks, &config, groups.data()), WEFT_SUCCESS);
    OnThreads(ranks, [&](int rank) { body(rank, groups[static_cast<size_t>(rank)]); });
    for (weft_group_t group : groups)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  static int Add(const Model& model, const Group& numbers) {
    int group = -1;
    EXPECT_EQ(weft_shard_param_group_add(model.context, &numbers, &group), WEFT_SUCCESS)
        << weft_last_error();
    return group;
  }

  static Group Get(const Model& model, int group) {
    Group numbers = EmptyGroup();
    EXPECT_EQ(weft_shard_param_group_get(model.context, group, &numbers), WEFT_SUCCESS)
        << weft_last_error();
    return numbers;
  }
};

constexpr uint32_t kFactors =
    WEFT_OPTIMIZER_KIND | WEFT_OPTIMIZER_LEARNING_RATE_FACTOR | WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR;

TEST_F(ShardParamGroups, InheritWhatIsNotNamedAndAreReadBack) {
  OnRanks(1, [](int, weft_group_t ranks) {
    const Model model(ranks, WEFT_OPTIMIZER_ADAMW, WEFT_SHARD_NO_SHARD);
    const Group own = Get(model, 0);
    EXPECT_EQ(own.kind, WEFT_OPTIMIZER_ADAMW);
    EXPECT_EQ(own.beta1, 0.9);
    EXPECT_EQ(own.beta2, 0.95);
    EXPECT_EQ(own.learning_rate_factor, 1);
    EXPECT_EQ(own.fields,
              kFactors | WEFT_OPTIMIZER_BETA1 | WEFT_OPTIMIZER_BETA2 | WEFT_OPTIMIZER_EPSILON);
    int plain = -1;
    EXPECT_EQ(weft_shard_param_group_add(model.context, nullptr, &plain), WEFT_SUCCESS);
    EXPECT_EQ(plain, 1);
    const Group same = Get(model, plain);
    EXPECT_EQ(std::memcmp(&same, &own, sizeof(own)), 0);
    Group sgd = EmptyGroup();
    sgd.kind = WEFT_OPTIMIZER_SGD;
    sgd.momentum = 0.5;
    sgd.nesterov = 1;
    sgd.fields = WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR;
    EXPECT_EQ(Add(model, sgd), 2);
    const Group read = Get(model, 2);
    EXPECT_EQ(read.weight_decay_factor, 0);
    EXPECT_EQ(read.momentum, 0.5);
    EXPECT_EQ(read.nesterov, 1);
    EXPECT_EQ(read.beta1, 0);
    EXPECT_EQ(read.fields, kFactors | WEFT_OPTIMIZER_MOMENTUM | WEFT_OPTIMIZER_NESTEROV);
    model.Finalize();
    // What was read is taken as it is; a number of its own changes alone.
    EXPECT_EQ(weft_shard_param_group_set(model.context, 2, &read), WEFT_SUCCESS)
        << weft_last_error();
    Group change = EmptyGroup();
    change.learning_rate_factor = 0.125;
    EXPECT_EQ(weft_shard_param_group_set(model.context, 2, &change), WEFT_SUCCESS);
    Group after = Get(model, 2);
    EXPECT_EQ(after.learning_rate_factor, 0.125);
    after.learning_rate_factor = 1;
    EXPECT_EQ(std::memcmp(&after, &read, sizeof(read)), 0);
  });
}

TEST_F(ShardParamGroups, AreShownByParamsAndSharedByTiedOnes) {
  OnRanks(1, [](int, weft_group_t ranks) {
    const Model model(ranks, WEFT_OPTIMIZER_ADAMW, WEFT_SHARD_NO_SHARD);
    const int group = Add(model, EmptyGroup());
    EXPECT_EQ(model.GroupOf(model.params[0]), 0);
    EXPECT_EQ(weft_shard_param_set_group(model.tied, group), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(model.GroupOf(model.params[0]), group);
    EXPECT_EQ(model.GroupOf(model.tied), group);
    EXPECT_EQ(model.GroupOf(model.params[1]), 0);
    EXPECT_EQ(weft_shard_param_set_group(model.params[1], 2), WEFT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(weft_last_error()).find("the context has 2 param groups"),
              std::string::npos)
        << weft_last_error();
  });
}

TEST_F(ShardParamGroups, UpdateByTheirFactorsAndSchedules) {
  OnRanks(2, [](int, weft_group_t ranks) {
    const Model model(ranks, WEFT_OPTIMIZER_SGD, WEFT_SHARD_FULL_SHARD);
    Group fast = EmptyGroup();
    fast.learning_rate_factor = 2;
    const int group = Add(model, fast);
    EXPECT_EQ(weft_shard_param_set_group(model.params[1], group), WEFT_SUCCESS);
    model.Finalize();
    weft_shard_update_t update = {};
    update.struct_size = sizeof(update);
    update.learning_rate = 0.5;
    model.Backward(1);
    (void)model.Update(update);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS);
    EXPECT_EQ(model.Read(0), std::vector<float>(Model::kCount, -0.5F));
    EXPECT_EQ(model.Read(1), std::vector<float>(Model::kCount, -1.0F));
    // No rate at all, and no weight decay.
    Group still = EmptyGroup();
    still.fields = WEFT_OPTIMIZER_LEARNING_RATE_FACTOR;
    EXPECT_EQ(weft_shard_param_group_set(model.context, group, &still), WEFT_SUCCESS);
    Group undecayed = EmptyGroup();
    undecayed.fields = WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR;
    EXPECT_EQ(weft_shard_param_group_set(model.context, 0, &undecayed), WEFT_SUCCESS);
    model.Backward(1);
    EXPECT_EQ(weft_shard_param_group_set(model.context, group, &still), WEFT_SUCCESS)
        << "after finish: " << weft_last_error();
    (void)model.Update(update);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS);
    EXPECT_EQ(model.Read(0), std::vector<float>(Model::kCount, -1.0F));
    EXPECT_EQ(model.Read(1), std::vector<float>(Model::kCount, -1.0F));
  });
}

TEST_F(ShardParamGroups, StayInTheMiddleOfAStep) {
  OnRanks(1, [](int, weft_group_t ranks) {
    const Model model(ranks, WEFT_OPTIMIZER_ADAMW, WEFT_SHARD_NO_SHARD);
    const Group numbers = EmptyGroup();
    EXPECT_EQ(weft_shard_param_group_set(model.context, 0, &numbers), WEFT_BAD_STATE);
    model.Finalize();
    EXPECT_EQ(weft_shard_param_group_set(model.context, 0, &numbers), WEFT_SUCCESS);
    EXPECT_EQ(StepBegin(model.context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_param_group_set(model.context, 0, &numbers), WEFT_BAD_STATE);
    EXPECT_EQ(weft_shard_abort_step(model.context, "the test is over"), WEFT_SUCCESS);
  });
}

TEST_F(ShardParamGroups, OfKindOwnAreScaledAndLeftToTheCaller) {
  OnRanks(2, [](int, weft_group_t ranks) {
    const Model model(ranks, WEFT_OPTIMIZER_SGD, WEFT_SHARD_ZERO1);
    Group own = EmptyGroup();
    own.kind = WEFT_OPTIMIZER_OWN;
    const int group = Add(model, own);
    EXPECT_EQ(Get(model, group).fields, kFactors);
    EXPECT_EQ(weft_shard_param_set_group(model.params[1], group), WEFT_SUCCESS);
    EXPECT_EQ(model.Finalize().optimizer_bytes, 0U) << "nor has SGD without momentum a state";
    weft_shard_update_t update = {};
    update.struct_size = sizeof(update);
    update.learning_rate = 0.5;
    update.gradient_factor = 0.25;
    model.Backward(1);
    EXPECT_EQ(model.Update(update).skipped, 0);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_BAD_STATE);
    EXPECT_NE(std::string(weft_last_error()).find("such as b; update their parts"),
              std::string::npos)
        << weft_last_error();
    // Until then some ranks have old values of what lies beside them, and the gradients are used up.
    float values[Model::kCount];
    weft_shard_state_part_t state = {.struct_size = sizeof(state)};
    weft_shard_norm_t norm = {.struct_size = sizeof(norm)};
    EXPECT_EQ(ReadValues(model.params[0], values), WEFT_BAD_STATE);
    EXPECT_EQ(weft_shard_state_part(model.params[0], WEFT_SHARD_STATE_VALUE, &state),
              WEFT_BAD_STATE);
    EXPECT_EQ(weft_shard_gradient_norm(model.context, nullptr, &norm), WEFT_BAD_STATE);
    weft_shard_part_t part = {};
    part.struct_size = sizeof(part);
    EXPECT_EQ(weft_shard_param_part(model.params[1], &part), WEFT_SUCCESS);
    for (size_t i = 0; i < part.count; ++i) {
      EXPECT_EQ(static_cast<const float*>(part.grad)[i], 0.25F);
      static_cast<float*>(part.data)[i] = 3;
    }
    EXPECT_EQ(weft_shard_params_updated(model.context, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_state_written(model.context, WEFT_SHARD_STATE_VALUES, nullptr),
              WEFT_BAD_STATE);
    EXPECT_EQ(weft_shard_state_part(model.params[0], WEFT_SHARD_STATE_VALUE, &state), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(model.Read(0), std::vector<float>(Model::kCount, -0.125F));
    EXPECT_EQ(model.Read(1), std::vector<float>(Model::kCount, 3));
    // What is skipped leaves nothing to do.
    model.Backward(INFINITY);
    EXPECT_EQ(model.Update(update).skipped, 1);
    EXPECT_EQ(weft_shard_step_end(model.context), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(model.Read(1), std::vector<float>(Model::kCount, 3));
  });
}

// Muon's product is asked for, with the caller's pointer; vectors are refused.
TEST(ShardMuon, MultipliesWithTheCallersProduct) {
  const weft_group_config_t named = ConfigNamed("muon");
  weft_group_t ranks = nullptr;
  ASSERT_EQ(weft_group_create_local(1, &named, &ranks), WEFT_SUCCESS);
  {
    const Model vectors(ranks, WEFT_OPTIMIZER_MUON, WEFT_SHARD_NO_SHARD);
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    EXPECT_EQ(weft_shard_context_plan(vectors.context, &plan), WEFT_UNSUPPORTED);
    EXPECT_NE(std::string(weft_last_error()).find("parameter a has 1 dimensions, and MUON"),
              std::string::npos)
        << weft_last_error();
  }
  weft_mesh_t mesh = nullptr;
  weft_shard_context_t context = nullptr;
  EXPECT_EQ(weft_mesh_create(ranks, nullptr, &mesh), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
  int calls = 0;
  weft_optimizer_config_t config = {};
  config.struct_size = sizeof(config);
  config.kind = WEFT_OPTIMIZER_MUON;
  // Makes everything zero: what is left of an update is the weight decay.
  config.product = [](const float*, const float*, float* c, size_t m, size_t n, size_t,
                      void* user) {
    std::memset(c, 0, m * n * sizeof(float));
    ++*static_cast<int*>(user);
  };
  config.product_user = &calls;
  EXPECT_EQ(weft_shard_context_optimizer(context, &config), WEFT_SUCCESS) << weft_last_error();
  weft_shard_unit_t unit = nullptr;
  weft_shard_param_t param = nullptr;
  const int64_t shape[] = {4, 2};
  EXPECT_EQ(weft_shard_unit_begin(context, "u", nullptr, &unit), WEFT_SUCCESS);
  EXPECT_EQ(AddParam(unit, "u.w", shape, 2, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  EXPECT_EQ(weft_shard_context_finalize(context, &plan), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(plan.optimizer_bytes, (128 + 3 * 8 + 2 * 4) * sizeof(float));
  EXPECT_EQ(StepBegin(context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
  EXPECT_EQ(MicrobatchBegin(context, 0, 1), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_pre_forward(unit, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_post_forward(unit, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_pre_backward(unit, nullptr), WEFT_SUCCESS);
  const std::vector<float> gradient(8, 1);
  EXPECT_EQ(weft_shard_grad_ready(param, gradient.data(), nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_post_backward(unit, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_microbatch_end(context, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_finish(context, nullptr, nullptr), WEFT_SUCCESS);
  weft_shard_update_t update = {};
  update.struct_size = sizeof(update);
  update.learning_rate = 1;
  EXPECT_EQ(weft_shard_optimizer_step(context, &update, nullptr), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(weft_shard_step_end(context), WEFT_SUCCESS);
  EXPECT_EQ(calls, 15);
  float weights[8];
  EXPECT_EQ(ReadValues(param, weights), WEFT_SUCCESS);
  // X = 1 / sqrt(8), five times 3.4445 X; lr sqrt(4 / 2).
  EXPECT_NEAR(weights[3], -std::sqrt(2.0) * std::pow(3.4445, 5) / std::sqrt(8.0), 1e-3);
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(ranks), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::param_groups_test
