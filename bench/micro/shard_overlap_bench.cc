// How much of a sharded step's communication is hidden behind compute, with compute that only sleeps, and what a
// pre_forward call costs that finds its unit gathered.
//
//   build/release/bin/weftrun -n 2 build/release/bench/shard_overlap_bench [MIB_PER_UNIT] [STEPS] [full-shard|ddp|offload DIRECTORY]
//
// Twelve equal units, each a bucket, FULL_SHARD or NO_SHARD, one micro-batch. `offload`: FULL_SHARD with params in files of that directory,
// where the compute of a unit sleeps for as long as it takes to be read and gathered; of_resident is the step over one with params in memory. The steps alternate between two contexts: one that prefetches
// and overlaps, one that does neither. The compute of a unit sleeps for twice as long as its slowest
// communication takes. What cannot be hidden is the first gather and the last reduction, which are printed apart; of
// the rest, 1 - (what is waited for) / (what is waited for without overlap) is hidden. NO_SHARD gathers nothing; of what it waits for in finish,
// a twelfth of the time without overlap is the last reduction. Rank 0 prints JSON: medians and quartiles over the steps.
//
// Every rank is one thread; nothing is shared between ranks but weft.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "weft/shard.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUnits = 12;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Setup {
  weft_shard_preset_t preset = WEFT_SHARD_FULL_SHARD;
  size_t unit_bytes = 0;
  const char* offload = nullptr;  // directory
};

// What one step amounted to, in microseconds.
struct StepTimes {
  double total = 0;
  double gathers = 0;     // waited for in pre_ calls
  double first = 0;       // of that, in the first one
  double reductions = 0;  // waited for in finish
  double longest = 0;     // the longest call
  double hit = 0;         // median of the pre_forward calls but the first
  double post = 0;        // median of the post_forward calls, which start the next gather
  bool replayed = false;
};

class Model {
 public:
  Model(const weft::Mesh& mesh, const Setup& setup, bool overlap)
      : context_(mesh, Config(setup, overlap)) {
    weft_optimizer_config_t optimizer = {};
    optimizer.struct_size = sizeof(optimizer);
    optimizer.kind = WEFT_OPTIMIZER_ADAMW;
    if (setup.offload != nullptr) context_.SetOptimizer(&optimizer);
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = setup.preset;
    for (int i = 0; i < kUnits; ++i) {
      const std::string name = "block." + std::to_string(i);
      units_.push_back(context_.AddUnit(name, &policy));
      params_.push_back(units_.back().AddParam(
          name + ".weight", {static_cast<std::int64_t>(setup.unit_bytes / sizeof(float))},
          WEFT_FLOAT32));
      units_.back().Seal();
    }
    (void)context_.Finalize();
  }

  StepTimes Step(std::chrono::microseconds compute) {
    StepTimes times;
    const auto start = Clock::now();
    std::vector<double> hits;
    std::vector<double> posts;
    const auto timed = [&](auto call) {
      const auto before = Clock::now();
      call();
      const double micros = MicrosSince(before);
      times.longest = std::max(times.longest, micros);
      return micros;
    };
    weft::ShardStep step(context_);
    context_.BeginMicrobatch(0, true);
    for (int i = 0; i < kUnits; ++i) {
      const double micros = timed([&] { units_[size_t(i)].PreForward(); });
      (i == 0 ? times.first : hits.emplace_back()) = micros;
      std::this_thread::sleep_for(compute);
      posts.push_back(timed([&] { units_[size_t(i)].PostForward(); }));
    }
    for (int i = kUnits - 1; i >= 0; --i) {
      timed([&] { units_[size_t(i)].PreBackward(); });
      std::this_thread::sleep_for(2 * compute);
      params_[size_t(i)].GradReady();
      units_[size_t(i)].PostBackward();
    }
    context_.EndMicrobatch();
    timed([&] {
      const weft_shard_step_result_t result = step.Finish();
      times.replayed = result.replayed == 1;
      times.gathers = double(result.gather_exposed_ns) * 1e-3;
      times.reductions = double(result.comm_exposed_ns) * 1e-3;
    });
    step.End();
    times.total = MicrosSince(start);
    std::nth_element(hits.begin(), hits.begin() + kUnits / 2, hits.end());
    times.hit = hits[kUnits / 2];
    std::nth_element(posts.begin(), posts.begin() + kUnits / 2, posts.end());
    times.post = posts[kUnits / 2];
    return times;
  }

 private:
  static const weft_shard_config_t* Config(const Setup& setup, bool overlap) {
    static weft_shard_offload_t offload = {};
    offload.struct_size = sizeof(offload);
    offload.directory = setup.offload;
    offload.params = 1;
    static weft_shard_config_t config = {};
    config = {};
    if (setup.offload != nullptr) config.offload = &offload;
    config.struct_size = sizeof(config);
    config.no_overlap = overlap ? 0 : 1;
    config.bucket_bytes = setup.unit_bytes;
    config.first_bucket_bytes = setup.unit_bytes;
    return &config;
  }

  weft::ShardContext context_;
  std::vector<weft::ShardUnit> units_;
  std::vector<weft::ShardParam> params_;
};

struct Summary {
  double median = 0, low = 0, high = 0;  // low and high: quartiles
};

Summary Summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {values[n / 2], values[n / 4], values[n - 1 - n / 4]};
}

template <typename Field>
Summary Of(const std::vector<StepTimes>& steps, Field field) {
  std::vector<double> values;
  for (const StepTimes& step : steps)
    values.push_back(field(step));
  return Summarize(std::move(values));
}

void Print(const char* name, const Summary& summary, const char* end = ",\n") {
  std::printf("  \"%s\": {\"median\": %.3f, \"quartiles\": [%.3f, %.3f]}%s", name, summary.median,
              summary.low, summary.high, end);
}

// Of what can be hidden.
double HiddenFraction(weft_shard_preset_t preset, const StepTimes& with, const StepTimes& without) {
  const double last = without.reductions / kUnits;
  const double can_hide = without.gathers - without.first + without.reductions - last;
  const double waited = preset == WEFT_SHARD_NO_SHARD ? std::max(with.reductions - last, 0.0)
                                                      : with.gathers - with.first;
  return 1 - waited / can_hide;
}

void Run(const Setup& setup, int steps) {
  weft::Group group = weft::Group::FromEnvironment();
  const weft::Mesh mesh(group);
  Model hidden(mesh, setup, true);
  Model exposed(mesh, setup, false);
  double slowest = 0;
  std::vector<double> gathers;
  for (int i = 0; i < 3; ++i)
    slowest = exposed.Step(std::chrono::microseconds(0)).longest;
  // A disk that is idle in between is slower than one that is not.
  for (int i = 0; i < 5 && setup.offload != nullptr; ++i)
    gathers.push_back(exposed.Step(std::chrono::microseconds(4000)).gathers / (2 * kUnits));
  if (!gathers.empty()) slowest = Summarize(gathers).median;
  // Nothing is waited for before finish, which then waits for all reductions.
  if (setup.preset == WEFT_SHARD_NO_SHARD) slowest /= kUnits;
  group.AllReduce(&slowest, &slowest, 1, WEFT_MAX);
  const auto compute = std::chrono::microseconds(
      setup.offload != nullptr ? std::int64_t(slowest) : std::int64_t(2 * slowest) + 1000);
  // With params in memory.
  Setup in_memory = setup;
  in_memory.offload = nullptr;
  Model resident(mesh, in_memory, true);
  std::vector<StepTimes> with, without;
  std::vector<double> of_resident;
  for (int i = 0; i < steps; ++i) {
    with.push_back(hidden.Step(compute));
    without.push_back(exposed.Step(compute));
    if (setup.offload != nullptr)
      of_resident.push_back(with.back().total / resident.Step(compute).total);
  }
  std::vector<double> fraction;
  for (size_t i = 0; i < with.size(); ++i)
    fraction.push_back(HiddenFraction(setup.preset, with[i], without[i]));
  if (group.Rank() != 0) return;
  std::printf("{\n  \"ranks\": %d, \"units\": %d, \"unit_bytes\": %zu, \"steps\": %d,\n",
              group.Size(), kUnits, setup.unit_bytes, steps);
  std::printf("  \"compute_us\": %lld, \"replayed\": %s,\n", (long long)compute.count(),
              with.back().replayed ? "true" : "false");
  Print("hidden_fraction", Summarize(fraction));
  const auto waited = [](const StepTimes& t) {
    return t.gathers + t.reductions;
  };
  Print("waited_us", Of(with, waited));
  Print("first_gather_us", Of(with, [](const StepTimes& t) { return t.first; }));
  Print("last_reduction_us", Of(with, [](const StepTimes& t) { return t.reductions; }));
  Print("waited_without_overlap_us", Of(without, waited));
  if (!of_resident.empty()) Print("of_resident", Summarize(of_resident));
  Print("step_us", Of(with, [](const StepTimes& t) { return t.total; }));
  Print("step_without_overlap_us", Of(without, [](const StepTimes& t) { return t.total; }));
  Print("pre_forward_hit_us", Of(with, [](const StepTimes& t) { return t.hit; }));
  Print("post_forward_us", Of(with, [](const StepTimes& t) { return t.post; }), "\n}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const double mib = argc > 1 ? std::atof(argv[1]) : 4;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 21;
  const std::string way = argc > 3 ? argv[3] : "full-shard";
  if (way == "offload" && argc < 5) {
    std::fprintf(stderr, "shard_overlap_bench: offload needs a directory\n");
    return 2;
  }
  try {
    Run({.preset = way == "ddp" ? WEFT_SHARD_NO_SHARD : WEFT_SHARD_FULL_SHARD,
         .unit_bytes = static_cast<size_t>(mib * 1024 * 1024),
         .offload = way == "offload" ? argv[4] : nullptr},
        steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shard_overlap_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
