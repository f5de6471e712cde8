// A prediction is worth as much as the steps that it is made of are like those of the run. So they are steps of Trainer itself, of as many
// ranks at once as have cores: they share caches, memory and cores as those of the run will. Steps of the models take turns, so that a
// machine that is slower for a while is slower for all of them.
#include "trainer/step_sample.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/collective.h"
#include "weft/group.h"

#include "trainer/failure.h"
#include "trainer/parallel.h"
#include "trainer/plan.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kSeconds = 2.8;  // all of it, unless two rounds take longer
constexpr double kWarmUpSeconds = 0.5;
constexpr size_t kWarmUpMost = 3;  // steps of each model; the first one records the order of units
constexpr size_t kRoundsLeast = 2;
constexpr size_t kRoundsMost = 200;
constexpr int64_t kTimeoutNs = 120'000'000'000;

double Elapsed(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

double ThreadCpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// The mean over the half of the steps that are neither among the fastest nor among the slowest quarter.
StepTime MiddleOf(std::vector<StepRecord> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const StepRecord& a, const StepRecord& b) { return a.seconds < b.seconds; });
  const size_t cut = steps.size() / 4;
  StepTime sum;
  for (size_t i = cut; i < steps.size() - cut; i++) {
    sum.update_s += steps[i].update_s;
    sum.exposed_s += steps[i].comm_exposed_s;
    sum.compute_s += steps[i].seconds - steps[i].update_s - steps[i].comm_exposed_s;
  }
  const double count = double(steps.size() - 2 * cut);
  return {sum.compute_s / count, sum.update_s / count, sum.exposed_s / count};
}

// One model that is tried out, on one rank.
struct Candidate {
  TrainConfig config;
  TrainingText text;
  std::unique_ptr<Trainer> trainer;
  size_t steps = 0;
  std::vector<StepRecord> timed;

  Candidate(const TrainConfig& sample, weft_group_t group)
      : config(sample),
        text(
            AnyLetters((2 * config.global_batch + 1) * config.model.seq + 1, config.model.seq + 1)),
        trainer(std::make_unique<Trainer>(config, text, group)) {
    trainer->Begin();
  }

  StepRecord Step() { return trainer->Step(steps++); }
};

// What one rank does. All ranks come to the same choices: rank 0's clock counts for all.
class Sampler {
 public:
  Sampler(const TrainConfig& config, const Placement& placement, weft_group_t group,
          Steady::time_point start)
      : config_(config), placement_(placement), group_(group), start_(start) {}

  StepSample Run() {
    MeasureProducts();
    const uint64_t free_bytes = Agreed(FreeMemoryBytes());
    const std::optional<SampleShape> shape =
        ChooseSampleShape(config_, placement_, sample_.gemm.mean, free_bytes);
    sample_.shape.ranks = SampleRanks(config_, placement_);
    if (!shape) return sample_;
    sample_.shape = *shape;
    MakeCandidates();
    WarmUp();
    Time();
    Conclude();
    return sample_;
  }

 private:
  // Rank 0's.
  template <typename T>
  T Agreed(T value) {
    Check(weft_broadcast(&value, &value, sizeof value, WEFT_UINT8, 0, group_, nullptr, nullptr),
          "trying out steps");
    return value;
  }

  void MeasureProducts() {
#ifdef _OPENMP
    omp_set_num_threads(config_.threads);
#endif
    const size_t rows = LargestMicroBatch(config_, placement_.ranks) * config_.model.seq;
    Agreed(uint8_t{0});  // all begin at once
    const auto matmul = MakeMatmul<float>(config_.precision);
    sample_.gemm = Agreed(MeasureGemmRate(config_.model, rows, *matmul));
  }

  void MakeCandidates() {
    const SampleShape& shape = sample_.shape;
    Add(shape.layers, 1);
    if (shape.fewer_layers > 0) Add(shape.fewer_layers, 1);
    if (config_.accumulate > 1) Add(shape.layers, 2);
  }

  void Add(size_t layers, size_t microbatches) {
    candidates_.push_back(std::make_unique<Candidate>(
        SampleConfig(config_, sample_.shape, layers, microbatches), group_));
  }

  void WarmUp() {
    const auto begin = Steady::now();
    for (size_t i = 0; i < kWarmUpMost; i++) {
      for (const auto& candidate : candidates_)
        candidate->Step();
      if (Agreed(Elapsed(begin) > kWarmUpSeconds)) break;
    }
  }

  void Time() {
    const auto begin = Steady::now();
    double wall = 0, cpu = 0;
    bool more = true;
    for (size_t round = 0; more; round++) {
      for (const auto& candidate : candidates_) {
        Agreed(uint8_t{0});  // a step begins when all ranks are there
        const double cpu_before = ThreadCpuSeconds();
        const StepRecord record = candidate->Step();
        cpu += ThreadCpuSeconds() - cpu_before;
        wall += record.seconds - record.comm_exposed_s;
        candidate->timed.push_back(record);
      }
      const double of_a_round = Elapsed(begin) / double(round + 1);
      more = Agreed(round + 1 < kRoundsLeast ||
                    (round + 1 < kRoundsMost && Elapsed(start_) + of_a_round < kSeconds));
    }
    sample_.cpu_share = std::min(1.0, cpu / wall);
  }

  void Conclude() {
    size_t next = 0;
    sample_.rounds = candidates_[0]->timed.size();
    sample_.step = MiddleOf(candidates_[next++]->timed);
    if (sample_.shape.fewer_layers > 0) sample_.fewer = MiddleOf(candidates_[next++]->timed);
    if (config_.accumulate > 1) sample_.twice = MiddleOf(candidates_[next++]->timed);
  }

  const TrainConfig& config_;
  const Placement& placement_;
  const weft_group_t group_;
  const Steady::time_point start_;
  StepSample sample_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
};

// The groups of ranks that are threads, and why the first of them that failed did.
class LocalRanks {
 public:
  explicit LocalRanks(size_t count) : groups_(count) {
    weft_group_config_t config = {};
    config.struct_size = sizeof config;
    config.name = "dry run";
    config.timeout_ns = kTimeoutNs;
    Check(weft_group_create_local(int(count), &config, groups_.data()),
          "making a group of threads to try out steps");
  }

  ~LocalRanks() {
    for (weft_group_t group : groups_)
      weft_group_destroy(group);
  }

  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  // Runs `run(rank, group)` on a thread for each rank. If it throws on one, the others end too, and that is thrown here.
  template <typename Function>
  void Run(const Function& run) {
    std::vector<std::jthread> threads;
    const auto guarded = [&](size_t rank) {
      try {
        run(rank, groups_[rank]);
      } catch (const std::exception& error) {
        Note(std::current_exception());
        weft_group_abort(groups_[rank], error.what());
      }
    };
    try {
      for (size_t rank = 0; rank < groups_.size(); rank++)
        threads.emplace_back(guarded, rank);
    } catch (const std::exception& error) {
      Note(std::current_exception());
      weft_group_abort(groups_[0], error.what());
    }
    threads.clear();  // joins them
    if (first_) std::rethrow_exception(first_);
  }

 private:
  void Note(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(error);
  }

  std::vector<weft_group_t> groups_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

StepSample SampleSteps(const TrainConfig& config, const Placement& placement) {
  const auto start = Steady::now();
  StepSample sample;
  try {
    LocalRanks ranks(SampleRanks(config, placement));
    ranks.Run([&](size_t rank, weft_group_t group) {
      StepSample own = Sampler(config, placement, group, start).Run();
      if (rank == 0) sample = own;
    });
  } catch (const std::bad_alloc&) {
    throw RunFailure("there was no memory to try out steps");
  }
  sample.seconds = Elapsed(start);
  return sample;
}

}  // namespace weft::trainer
