// The loop of FSDP: every block is gathered before it is used and freed afterwards, while the next one is on its way.
//
// A model of six blocks, y = x + W x, with everything sharded. weft gathers blocks ahead in the order in which they were declared, later
// in that of the step before. The argument says how many: more of them need more memory, and give the same bits.
//
//   $ c++ -std=c++17 fsdp.cc -o fsdp $(pkg-config --cflags --libs weft)
//   $ weftrun -n 2 ./fsdp 1
//   [0] keeps 12288 of 24576 bytes of params, pool 12288; 50 of 50 steps as planned; loss 0.155052
//   $ weftrun -n 2 ./fsdp 3
//   [0] keeps 12288 of 24576 bytes of params, pool 28672; 50 of 50 steps as planned; loss 0.155052
//   $ weftrun -n 3 ./fsdp 1
//   [0] keeps 9216 of 24576 bytes of params, pool 12288; 50 of 50 steps as planned; loss 0.0929016
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <weft/shard.hpp>

constexpr int kBlocks = 6, kWidth = 32, kBatch = 16, kSteps = 50;
using Batch = std::vector<float>;  // [kBatch][kWidth]

class Block {
 public:
  Block(const weft::ShardContext& model, int number) {
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    unit_ = model.AddUnit("block" + std::to_string(number), &policy);
    weight_ = unit_.AddParam("weight" + std::to_string(number), {kWidth, kWidth}, WEFT_FLOAT32);
    unit_.Seal();
  }

  // y = x + W x; x is kept for backward.
  Batch Forward(Batch x) {
    const weft::ForwardScope unsharded(unit_);
    const float* w = weight_.As<float>();  // here until the scope ends, and elsewhere next time
    Batch y = x;
    for (int i = 0; i < kBatch * kWidth; ++i)
      for (int k = 0; k < kWidth; ++k)
        y[i] += w[i % kWidth * kWidth + k] * x[i / kWidth * kWidth + k];
    x_ = std::move(x);
    return y;
  }

  Batch Backward(const Batch& dy) const {
    const weft::BackwardScope unsharded(unit_);
    const float* w = weight_.As<float>();
    float* dw = weight_.GradAs<float>();
    Batch dx = dy;
    for (int i = 0; i < kBatch * kWidth; ++i)
      for (int k = 0; k < kWidth; ++k) {
        dw[i % kWidth * kWidth + k] += dy[i] * x_[i / kWidth * kWidth + k];
        dx[i / kWidth * kWidth + k] += dy[i] * w[i % kWidth * kWidth + k];
      }
    weight_.GradReady();  // its reduction starts, and backward goes on
    return dx;
  }

 private:
  weft::ShardUnit unit_;
  weft::ShardParam weight_;
  Batch x_;
};

static void Train(int prefetch) {
  const weft::Group group = weft::Group::FromEnvironment();
  const weft::Mesh mesh(group);
  weft_shard_config_t config = {};
  config.struct_size = sizeof(config);
  config.prefetch = prefetch;
  config.fields = WEFT_SHARD_PREFETCH;  // also if it is 0
  const weft::ShardContext model(mesh, &config);
  model.SetOptimizer();  // AdamW
  std::vector<Block> blocks;
  for (int i = 0; i < kBlocks; ++i)
    blocks.emplace_back(model, i);
  const weft_shard_plan_t plan = model.Finalize();

  std::minstd_rand random(1 + group.Rank());  // every rank has samples of its own
  double loss = 0;
  int as_planned = 0;
  for (int step = 0; step < kSteps; ++step) {
    Batch x(kBatch * kWidth), dy(kBatch * kWidth);
    for (float& element : x)
      element = static_cast<float>(random()) / static_cast<float>(std::minstd_rand::max()) - 0.5f;
    weft::ShardStep training(
        model);  // aborts the step on all ranks if an exception leaves the loop
    model.BeginMicrobatch(0, true);
    Batch y = x;
    for (Block& block : blocks)
      y = block.Forward(std::move(y));
    loss = 0;
    for (int i = 0; i < kBatch * kWidth; ++i) {  // the model is to learn to double
      dy[i] = 2 * (y[i] - 2 * x[i]) / kBatch;
      loss += (y[i] - 2 * x[i]) * (y[i] - 2 * x[i]) / kBatch;
    }
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
      dy = block->Backward(dy);
    model.EndMicrobatch();
    as_planned += training.Finish().replayed;
    training.Update(0.01);
    training.End();
  }
  group.AllReduce(&loss, &loss, 1, WEFT_AVG);
  if (group.Rank() == 0)
    std::printf("keeps %d of %d bytes of params, pool %d; %d of %d steps as planned; loss %.6g\n",
                static_cast<int>(plan.param_bytes), static_cast<int>(plan.element_count * 4),
                static_cast<int>(plan.pool_bytes), as_planned, kSteps, loss);
}

int main(int argc, char** argv) {
  try {
    Train(argc > 1 ? std::atoi(argv[1]) : 1);
    return 0;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
