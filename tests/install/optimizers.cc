// Three ways to update a model: param groups, two contexts with one norm, an optimizer of the program's own.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "weft/shard.hpp"
#include "weft/shard_param_groups.hpp"
#include "weft/shard_step.hpp"

constexpr int kWidth = 8, kBatch = 16, kSteps = 400;

struct Model {  // y = head . (features x)
  weft::ShardContext* features_context = nullptr;
  weft::ShardContext* head_context = nullptr;  // the same one, or another
  weft::ShardUnit features_unit, head_unit;
  weft::ShardParam features, head;
};

float Uniform(std::uint64_t* seed) {  // in [-1, 1)
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return static_cast<float>(*seed >> 40) / 8388608.0f - 1.0f;
}

// A forward and a backward of this rank's samples, of which the loss is multiplied by `scale`. Returns the mean loss.
float RunMicrobatch(const Model& model, std::uint64_t* seed, double scale) {
  float loss = 0, x[kBatch][kWidth], hidden[kBatch][kWidth], dy[kBatch];
  {
    const weft::ForwardScope features(model.features_unit), head(model.head_unit);
    const float *a = model.features.As<float>(), *b = model.head.As<float>();
    for (int s = 0; s < kBatch; ++s) {
      float y = 0;
      for (float& element : x[s])
        element = Uniform(seed);
      for (int i = 0; i < kWidth; ++i) {
        hidden[s][i] = 0;
        for (int j = 0; j < kWidth; ++j)
          hidden[s][i] += a[i * kWidth + j] * x[s][j];
        y += b[i] * hidden[s][i];
      }
      const float error = y - (2 * x[s][0] - x[s][1]);
      loss += error * error / kBatch;
      dy[s] = 2 * error / kBatch * static_cast<float>(scale);
    }
  }
  const weft::BackwardScope features(model.features_unit), head(model.head_unit);
  const float* const b = model.head.As<float>();
  float *da = model.features.GradAs<float>(), *db = model.head.GradAs<float>();
  for (int s = 0; s < kBatch; ++s) {
    for (int i = 0; i < kWidth; ++i) {
      db[i] += dy[s] * hidden[s][i];
      for (int j = 0; j < kWidth; ++j)
        da[i * kWidth + j] += dy[s] * b[i] * x[s][j];
    }
  }
  return loss;
}

void Declare(Model& model) {
  weft_shard_policy_t sharded = {};
  sharded.struct_size = sizeof sharded;
  sharded.preset = WEFT_SHARD_FULL_SHARD;
  model.features_unit = model.features_context->AddUnit("features", &sharded);
  model.features = model.features_unit.AddParam("a", {kWidth, kWidth}, WEFT_FLOAT32);
  model.features_unit.Seal();
  model.head_unit = model.head_context->AddUnit("head");
  model.head = model.head_unit.AddParam("b", {kWidth}, WEFT_FLOAT32);
  model.head_unit.Seal();
}

void Load(const Model& model) {
  std::uint64_t seed = 1;
  std::vector<float> values(kWidth * kWidth);
  for (float& value : values)
    value = Uniform(&seed) / 2;
  model.features.Load(values.data(), WEFT_SHARD_EVERY_RANK);
  model.head.Load(values.data(), WEFT_SHARD_EVERY_RANK);
}

// 1. AdamW for all, and slower and slower for the head.
float TrainWithGroups(const weft::Mesh& mesh, std::uint64_t seed) {
  weft::ShardContext context(mesh);
  context.SetOptimizer();
  weft_shard_param_group_t slow = {};
  slow.struct_size = sizeof slow;
  slow.learning_rate_factor = 0.5;
  const int group = weft::AddParamGroup(context, slow);
  Model model = {&context, &context, {}, {}, {}, {}};
  Declare(model);
  weft::PutIntoGroup(model.head, group);
  context.Finalize();
  Load(model);
  float loss = 0;
  for (int i = 0; i < kSteps; ++i) {
    slow.learning_rate_factor = 0.5 * (1 - static_cast<double>(i) / kSteps);
    weft::ChangeParamGroup(context, group, slow);
    weft::ShardStep step(context);
    context.BeginMicrobatch(0, true);
    loss = RunMicrobatch(model, &seed, 1);
    context.EndMicrobatch();
    step.Finish();
    step.Update(0.02, 1.0);
    step.End();
  }
  return loss;
}

// 2. One model in two contexts, clipped by one norm; or in one context, to compare.
float TrainInContexts(const weft::Mesh& mesh, std::uint64_t seed, bool two) {
  weft::ShardContext first(mesh), second(two ? weft::ShardContext(mesh) : weft::ShardContext());
  const std::vector<weft::ShardContext*> contexts =
      two ? std::vector<weft::ShardContext*>{&first, &second}
          : std::vector<weft::ShardContext*>{&first};
  Model model = {&first, contexts.back(), {}, {}, {}, {}};
  for (weft::ShardContext* context : contexts)
    context->SetOptimizer();
  Declare(model);
  for (weft::ShardContext* context : contexts)
    context->Finalize();
  Load(model);
  float loss = 0;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<std::unique_ptr<weft::ShardStep>> steps;
    for (weft::ShardContext* context : contexts) {
      steps.push_back(std::make_unique<weft::ShardStep>(*context));
      context->BeginMicrobatch(0, true);
    }
    loss = RunMicrobatch(model, &seed, 1);
    for (std::size_t c = 0; c < contexts.size(); ++c) {
      contexts[c]->EndMicrobatch();
      steps[c]->Finish();
    }
    weft_shard_norm_t norm = steps[0]->GradientNorm();
    for (std::size_t c = 1; c < contexts.size(); ++c) {
      const weft_shard_norm_t other = steps[c]->GradientNorm();
      weft::Check(weft_shard_norm_add(&norm, &other));
    }
    weft_shard_update_t update = {};
    update.struct_size = sizeof update;
    update.learning_rate = 0.02;
    update.norm_max = 0.1;
    update.norm = &norm;
    for (const auto& step : steps) {
      step->Update(update);
      step->End();
    }
  }
  return loss;
}

// 3. SGD written here, behind weft's dynamic loss scale, norm and clipping.
float TrainWithOwnOptimizer(const weft::Mesh& mesh, std::uint64_t seed) {
  weft::ShardContext context(mesh);
  weft_optimizer_config_t config = {};
  config.struct_size = sizeof config;
  config.kind = WEFT_OPTIMIZER_OWN;
  config.dynamic_loss_scale = 1;
  context.SetOptimizer(&config);
  Model model = {&context, &context, {}, {}, {}, {}};
  Declare(model);
  context.Finalize();
  Load(model);
  float loss = 0;
  for (int i = 0; i < kSteps; ++i) {
    weft::ShardStep step(context);
    context.BeginMicrobatch(0, true);
    loss = RunMicrobatch(model, &seed, context.LossScale());
    context.EndMicrobatch();
    step.Finish();
    if (step.Update(0, 1.0).skipped == 0) {  // gradients are unscaled and clipped now
      for (const weft::ShardParam& param : {model.features, model.head}) {
        const weft_shard_part_t part = param.Part();
        for (std::size_t k = 0; k < part.count; ++k)
          static_cast<float*>(part.data)[k] -= 0.1f * static_cast<const float*>(part.grad)[k];
      }
      context.ParamsUpdated();
    }
    step.End();
  }
  return loss;
}

int main(int argc, char** argv) {
  const weft::Group group = weft::Group::FromEnvironment();
  const weft::Mesh mesh(group);
  const std::string mode = argc > 1 ? argv[1] : "groups";
  const std::uint64_t seed = 2 + static_cast<std::uint64_t>(group.Rank());
  float loss = 0;
  if (mode == "groups") loss = TrainWithGroups(mesh, seed);
  if (mode == "one" || mode == "two") loss = TrainInContexts(mesh, seed, mode == "two");
  if (mode == "own") loss = TrainWithOwnOptimizer(mesh, seed);
  std::printf("%s: loss %.9g\n", mode.c_str(), loss);
  return 0;
}
