// A plan is made on a mesh that does not exist, so its own memory does not grow with the model. The
// ranks compare it with what their machines have free, because no operating system refuses memory
// in time: it ends processes when there is none left.
#include "trainer/plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "weft/collective.h"

#include "trainer/agreement.h"
#include "trainer/failure.h"
#include "trainer/model.h"
#include "trainer/optimizer_setup.h"
#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

// Of one rank, as the others see it.
struct Need {
  uint64_t machine = 0;  // the same for ranks of one
  uint64_t bytes = 0;
  uint64_t free_bytes = 0;
};

std::string DescribeSharding(const TrainConfig& config, const RunPlan& run, size_t ranks) {
  const weft_shard_plan_t& plan = run.sharding;
  std::string out =
      fmt::format("       {} rank{} ({}), {} gradient bucket{}{}\n", ranks, ranks == 1 ? "" : "s",
                  weft_shard_preset_name(config.strategy), plan.bucket_count,
                  plan.bucket_count == 1 ? "" : "s", config.no_overlap ? ", no overlap" : "");
  out += fmt::format("memory {}, {} of it padding\n", DescribeMemory(run),
                     FormatBytes(plan.padding_bytes));
  if (plan.pool_bytes > plan.moving_pool_bytes) {
    out += fmt::format("       {} of the pool for views that do not move\n",
                       FormatBytes(plan.pool_bytes - plan.moving_pool_bytes));
  }
  if (plan.offload_bytes > 0) {
    out += fmt::format(
        "       {} of {} in {}, per step {} read, {} written\n", FormatBytes(plan.offload_bytes),
        plan.param_bytes == 0 ? "weights and optimizer state" : "optimizer state", config.offload,
        FormatBytes(plan.offload_read_bytes), FormatBytes(plan.offload_written_bytes));
  }
  out += fmt::format("       per step {} reduced, {} gathered, {} unit{} ahead\n",
                     FormatBytes(plan.traffic_bytes), FormatBytes(plan.gather_bytes), plan.prefetch,
                     plan.prefetch == 1 ? "" : "s");
  return out;
}

}  // namespace

const char* ArchitectureName(const ModelConfig& model) {
  return model.architecture == Architecture::kLlama ? "Llama" : "GPT";
}

std::string DescribeHeads(const ModelConfig& model) {
  std::string text = fmt::format("{} heads", model.heads);
  if (model.key_heads() != model.heads)
    text += fmt::format(" over {} of keys and values", model.key_heads());
  return text;
}

RunPlan PlanRun(const TrainConfig& config, size_t rank, size_t ranks) {
  RunPlan plan;
  plan.sharding = DataParallel::PlanOf(ModelUnits(config.model), config, rank, ranks);
  const size_t batch = LargestMicroBatch(config, ranks);
  plan.activation_bytes =
      WorkingBytes(config.model, batch, config.recompute, InputTypeOf(config.precision)) +
      ProductBytes(config.model, config.precision, config.param_type, batch * config.model.seq,
                   size_t(config.threads));
  return plan;
}

uint64_t ProductBytes(const ModelConfig& model, Precision precision, NumberType weights,
                      size_t rows, size_t threads) {
  // Of a block's matrices: GPT-2's is that of the perceptron.
  const size_t widest = std::max(model.hidden_width(), model.qkv_columns());
  const LargestOperands largest = {
      .activations = rows * widest,
      .logits = std::min(kHeadTileRows, rows) * model.padded_vocabulary(),
      .weights = model.width * std::max(widest, model.padded_vocabulary())};
  return MatmulBytes(precision, weights, largest, threads);
}

std::string DescribePlan(const TrainConfig& t, const RunPlan& plan, size_t ranks,
                         size_t train_bytes) {
  const double tokens = double(t.steps) * double(t.global_batch * t.model.seq);
  std::string out =
      fmt::format("model  {}, {} layers x {} wide, {}, {} tokens of context: {} parameters\n",
                  ArchitectureName(t.model), t.model.layers, t.model.width, DescribeHeads(t.model),
                  t.model.seq, FormatCount(double(ParameterCount(ModelUnits(t.model)))));
  out += fmt::format(
      "plan   {} steps x {} sequences ({}) = {} tokens{}, {:.1f} TFLOP, {} products{}, lr {:g}, "
      "seed "
      "{}\n",
      t.steps, t.global_batch, DescribeShares(t, ranks), FormatCount(tokens),
      train_bytes == 0 ? "" : fmt::format(" ({:.2f} epochs)", tokens / double(train_bytes)),
      tokens * FlopsPerToken(t.model) * 1e-12, NameOf(t.precision),
      BytesOf(t.param_type) < sizeof(float) ? " of 16-bit weights" : "", PeakRate(t), t.seed);
  const std::string scale = DescribeLossScale(t);
  if (!scale.empty()) out += "       loss scale " + scale + "\n";
  if (t.warmup > t.steps) {
    out += fmt::format(
        "       the warm-up of {} steps is longer than the run, whose rate ends at {:g}, below "
        "--lr; give a smaller --warmup\n",
        t.warmup, LearningRate(t, t.steps - 1));
  }
  return out + DescribeSharding(t, plan, ranks);
}

std::string DescribeMemory(const RunPlan& run) {
  const weft_shard_plan_t& plan = run.sharding;
  return fmt::format(
      "{} of parameters, {} of gradients, {} of optimizer state, {} of pool, {} of activations: {} "
      "per rank",
      FormatBytes(plan.param_bytes), FormatBytes(plan.grad_bytes),
      FormatBytes(plan.optimizer_bytes), FormatBytes(plan.pool_bytes),
      FormatBytes(run.activation_bytes), FormatBytes(run.Bytes()));
}

uint64_t ProgramBytes(Precision precision) {
  constexpr uint64_t kProgram = 30'000'000;
  constexpr uint64_t kFloatPacking = 12'000'000;  // by oneDNN's products of float32
  return precision == Precision::kBf16 ? kProgram : kProgram + kFloatPacking;
}

uint64_t FreeMemoryBytes() {
  std::ifstream in("/proc/meminfo");
  uint64_t kibibytes = 0;
  bool said = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long value = 0;
    const bool available = std::sscanf(line.c_str(), "MemAvailable: %llu", &value) == 1;
    if (!available && std::sscanf(line.c_str(), "SwapFree: %llu", &value) != 1) continue;
    said |= available;
    kibibytes += value;
  }
  return said ? kibibytes << 10 : UINT64_MAX;
}

uint64_t ThisMachine() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return std::hash<std::string>()(id);
}

void CheckMemory(weft_group_t group, const RunPlan& plan, const char* advice) {
  int size = 1;
  Check(weft_group_size(group, &size), "asking for the group's size");
  const Need own = {ThisMachine(), plan.Bytes(), FreeMemoryBytes()};
  std::vector<Need> all;
  all.resize(size_t(size));
  Check(weft_all_gather(&own, all.data(), sizeof own, WEFT_UINT8, group, nullptr, nullptr),
        "comparing what the ranks need with the memory there is");
  for (const Need& first : all) {
    std::vector<size_t> ranks;
    double bytes = 0;
    uint64_t free_bytes = UINT64_MAX;
    for (size_t rank = 0; rank < all.size(); rank++) {
      if (all[rank].machine != first.machine) continue;
      ranks.push_back(rank);
      bytes += double(all[rank].bytes);
      free_bytes = std::min(free_bytes, all[rank].free_bytes);
    }
    if (bytes <= double(free_bytes)) continue;
    ThrowOnAllRanks(
        group,
        fmt::format("the model does not fit: {} need{} {} of memory{}, and {} are free on the "
                    "machine ({}); {}",
                    NameRanks(ranks), ranks.size() == 1 ? "s" : "", FormatBytes(uint64_t(bytes)),
                    ranks.size() == 1 ? "" : " together", FormatBytes(free_bytes),
                    DescribeMemory(plan), advice));
  }
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", double(bytes) * 1e-3);
  double amount = double(bytes) * 1e-6;
  size_t unit = 0;
  for (; amount >= 1000 && unit + 1 < std::size(kUnits); unit++)
    amount *= 1e-3;
  return fmt::format("{:.2f} {}", amount, kUnits[unit]);
}

std::string Counted(size_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string FormatCount(double n) {
  if (n >= 1e9) return fmt::format("{:.2f} G", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.2f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

}  // namespace weft::trainer
