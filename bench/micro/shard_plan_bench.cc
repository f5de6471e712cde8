// What planning takes: weft_shard_context_plan of large models and of many micro-batches, by preset.
//
//   build/release/bench/shard_plan_bench [UNITS] [MICROBATCHES] [REPEATS]
//
// Declares UNITS units of two params, every seventh larger, on a dry mesh of 2 x 4 ranks, and asks for the plan, which is
// what finalize works out before it allocates. Prints JSON: for each preset and way to accumulate the best CPU time of
// declaring and of planning in seconds, and the most memory that the process had more than at its start, each in a
// process of its own.
//
// Single-threaded.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/shard_plan.hpp"

namespace {

struct Preset {
  weft_shard_preset_t preset;
  const char* name;
};

constexpr Preset kPresets[] = {
    {WEFT_SHARD_NO_SHARD, "NO_SHARD"},
    {WEFT_SHARD_ZERO1, "ZERO1"},
    {WEFT_SHARD_ZERO2, "ZERO2"},
    {WEFT_SHARD_GRAD_OP, "GRAD_OP"},
    {WEFT_SHARD_FULL_SHARD, "FULL_SHARD"},
    {WEFT_SHARD_HYBRID_SHARD, "HYBRID_SHARD"},
    {WEFT_SHARD_HPZ, "HPZ"},
    {WEFT_SHARD_FRACTION, "FRACTION"},
};

struct Size {
  int units = 10000;
  int microbatches = 8;
};

struct Cost {
  double declare_s = 1e9;
  double plan_s = 1e9;
  long peak_kib = 0;
  unsigned long long pool_bytes = 0;
};

// CPU time: what is measured waits for nothing, and other programs do not count.
double Now() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

long PeakKib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void Declare(const weft::ShardContext& context, weft_shard_preset_t preset, int units) {
  weft_shard_policy_t policy = {};
  policy.struct_size = sizeof policy;
  policy.preset = preset;
  for (int u = 0; u < units; ++u) {
    const std::string name = "blocks." + std::to_string(u);
    const weft::ShardUnit unit = context.AddUnit(name, &policy);
    (void)unit.AddParam(name + ".weight", {u % 7 == 0 ? 24 : 16, 32}, WEFT_FLOAT32);
    (void)unit.AddParam(name + ".bias", {32}, WEFT_FLOAT32);
    unit.Seal();
  }
}

// FRACTION gets room for half of the model, and for its gradients if they stay whole.
Cost Measure(const Preset& preset, bool every, const Size& size) {
  const weft_mesh_config_t axes = {sizeof axes, 2, {"replica", "shard"}, {2, 4}};
  const weft::Mesh mesh = weft::DryMesh(axes);
  weft_shard_config_t config = {};
  config.struct_size = sizeof config;
  config.accumulation = every ? WEFT_SHARD_REDUCE_EVERY : WEFT_SHARD_LOCAL_THEN_REDUCE;
  config.microbatches = size.microbatches;
  if (preset.preset == WEFT_SHARD_FRACTION) {
    config.memory_budget_bytes = static_cast<size_t>(size.units) * (every ? 2500 : 5000) + 100000;
  }
  Cost cost;
  const long before_kib = PeakKib();
  const weft::ShardContext context(mesh, &config);
  const double began = Now();
  Declare(context, preset.preset, size.units);
  const double declared = Now();
  cost.pool_bytes = weft::PlanOf(context).pool_bytes;
  cost.plan_s = Now() - declared;
  cost.declare_s = declared - began;
  cost.peak_kib = PeakKib() - before_kib;
  return cost;
}

// In a child, so that each has a peak of its own.
Cost MeasureApart(const Preset& preset, bool every, const Size& size) {
  int ends[2] = {};
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child < 0) std::exit(1);
  if (child == 0) {
    const Cost cost = Measure(preset, every, size);
    const bool told = write(ends[1], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
    _exit(told ? 0 : 1);
  }
  Cost cost;
  close(ends[1]);
  const bool heard = read(ends[0], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!heard || status != 0) std::exit(1);
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  if (argc > 1) size.units = std::atoi(argv[1]);
  if (argc > 2) size.microbatches = std::atoi(argv[2]);
  const int repeats = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  if (size.units < 1 || size.microbatches < 1) {
    std::fprintf(stderr, "usage: shard_plan_bench [UNITS] [MICROBATCHES] [REPEATS]\n");
    return 2;
  }
  std::printf("{\"units\": %d, \"microbatches\": %d, \"plans\": [", size.units, size.microbatches);
  const char* separator = "\n";
  for (const Preset& preset : kPresets) {
    for (const bool every : {false, true}) {
      Cost best;
      for (int i = 0; i < repeats; ++i) {
        const Cost cost = MeasureApart(preset, every, size);
        best.declare_s = std::min(best.declare_s, cost.declare_s);
        best.plan_s = std::min(best.plan_s, cost.plan_s);
        best.peak_kib = std::max(best.peak_kib, cost.peak_kib);
        best.pool_bytes = cost.pool_bytes;
      }
      std::printf(
          "%s  {\"preset\": \"%s\", \"accumulation\": \"%s\", \"declare_s\": %.3f, \"plan_s\": "
          "%.3f, "
          "\"peak_mb\": %.1f, \"pool_bytes\": %llu}",
          separator, preset.name, every ? "every" : "local", best.declare_s, best.plan_s,
          static_cast<double>(best.peak_kib) * 1.024e-3, best.pool_bytes);
      std::fflush(stdout);
      separator = ",\n";
    }
  }
  std::printf("\n]}\n");
  return 0;
}
