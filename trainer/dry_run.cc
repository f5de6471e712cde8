#include "trainer/dry_run.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/plan.h"
#include "trainer/step_prediction.h"
#include "trainer/step_sample.h"

namespace weft::trainer {
namespace {

constexpr size_t kPlansMost = 256;        // of ranks that are looked at
constexpr double kChinchillaTokens = 20;  // per parameter: Hoffmann et al., 2022
constexpr double kBusyShare =
    0.8;  // of the cores' time; with less the machine had other things to do

void CheckSettings(const DryRunSettings& settings) {
  if (settings.ranks < 1 || settings.ranks > kRanksMax) {
    throw BadInput(fmt::format("a dry run of {} ranks is out of range; use 1 to {}", settings.ranks,
                               kRanksMax));
  }
  if (!std::isfinite(settings.price_per_hour) || settings.price_per_hour < 0) {
    throw BadInput(
        fmt::format("a price of {} an hour is out of range; use 0 or more, 0 if it is not known",
                    settings.price_per_hour));
  }
}

Placement PlacementOf(const DryRunSettings& settings) {
  const size_t per_machine =
      settings.ranks_per_machine == 0 ? settings.ranks : settings.ranks_per_machine;
  return {settings.ranks, std::min(per_machine, settings.ranks),
          std::max(1u, std::thread::hardware_concurrency())};
}

// The ranks that need the least and the most, and what a machine has for them.
std::string DescribeRanks(const TrainConfig& config, const Placement& placement) {
  const size_t looked_at = std::min(placement.ranks, kPlansMost);
  uint64_t least = UINT64_MAX, most = 0, sum = 0;
  size_t least_rank = 0, most_rank = 0;
  for (size_t i = 0; i < looked_at; i++) {
    // First and last among them.
    const size_t rank = looked_at == 1 ? 0 : i * (placement.ranks - 1) / (looked_at - 1);
    const uint64_t bytes = PlanRun(config, rank, placement.ranks).Bytes();
    sum += bytes;
    if (bytes < least) least = bytes, least_rank = rank;
    if (bytes > most) most = bytes, most_rank = rank;
  }
  const uint64_t free_bytes = FreeMemoryBytes(), program = ProgramBytes(config.precision);
  const size_t local = placement.ranks_per_machine;
  const double of_a_machine = (double(sum) / double(looked_at) + double(program)) * double(local);
  std::string out = fmt::format("ranks  {} of memory each", FormatBytes(most));
  if (least < most) {
    out = fmt::format("ranks  {} (rank {}) to {} (rank {}) of memory each", FormatBytes(least),
                      least_rank, FormatBytes(most), most_rank);
  }
  if (looked_at < placement.ranks) out += fmt::format(", of {} that were looked at", looked_at);
  out += fmt::format(", and {} for the program", FormatBytes(program));
  if (local > 1) {
    out += fmt::format("; {} on a machine take {}", local, FormatBytes(uint64_t(of_a_machine)));
  }
  out += fmt::format("; {} are free here\n", FormatBytes(free_bytes));
  if (of_a_machine > double(free_bytes)) {
    out += fmt::format("       they do NOT fit: a machine like this has room for {}\n",
                       Counted(size_t(free_bytes / most), "such rank", "such ranks"));
  }
  return out;
}

std::string DescribeWork(const RunWork& work) {
  std::string out = fmt::format(
      "tokens {} to train on; {:g} for each parameter (Chinchilla) would be {}: {:.3g} % of "
      "these\n",
      FormatCount(work.tokens), kChinchillaTokens, FormatCount(work.chinchilla_tokens),
      100 * work.tokens / work.chinchilla_tokens);
  out += fmt::format("work   {}FLOP per step, {}FLOP in all; by 6ND {}FLOP, {:.3f} of it\n",
                     FormatFlops(work.flops_per_step), FormatFlops(work.flops),
                     FormatFlops(work.flops_6nd), work.flops_6nd / work.flops);
  return out;
}

std::string DescribeRate(const TrainConfig& config, const StepSample& sample) {
  const SampleShape& shape = sample.shape;
  return fmt::format(
      "rate   measured: {}FLOP/s in the model's {} products of {} rows, {}FLOP/s in the fastest{}, "
      "{}\n",
      FormatFlops(sample.gemm.mean), NameOf(config.precision), sample.gemm.rows,
      FormatFlops(sample.gemm.peak),
      shape.ranks == 1 ? std::string() : fmt::format(", on each of {} ranks at once", shape.ranks),
      Counted(size_t(config.threads), "thread", "threads"));
}

std::string DescribeTime(const TrainConfig& config, const RunWork& work, const Placement& placement,
                         const StepSample& sample, const StepTime& step) {
  const double of_a_rank = work.flops_per_step / double(placement.ranks) / step.Seconds();
  std::string out =
      sample.rounds == 0
          ? fmt::format(
                "time   at least {} per step: its products at that rate; a layer is too "
                "large to be tried out\n",
                FormatSeconds(step.Seconds()))
          : fmt::format(
                "time   predicted: {} per step: {} forward and backward, {} update, {} "
                "exposed communication\n",
                FormatSeconds(step.Seconds()), FormatSeconds(step.compute_s),
                FormatSeconds(step.update_s), FormatSeconds(step.exposed_s));
  out +=
      fmt::format("       {} tokens/s; {}FLOP/s of a rank, {:.1f} % of the fastest product (MFU)\n",
                  FormatCount(double(config.global_batch * config.model.seq) / step.Seconds()),
                  FormatFlops(of_a_rank), 100 * of_a_rank / sample.gemm.peak);
  return out;
}

std::string DescribeCost(const TrainConfig& config, const DryRunSettings& settings,
                         const StepSample& sample, const RunSeconds& run) {
  const double hours = double(settings.ranks) * run.All() / 3600;
  std::string out =
      fmt::format("run    {} {} for {}, {} for validation and the sample: {}\n",
                  sample.rounds == 0 ? "at least" : "predicted:", FormatSeconds(run.steps),
                  Counted(config.steps, "step", "steps"), FormatSeconds(run.validations),
                  FormatSeconds(run.All()));
  out += fmt::format("cost   {:.4g} device-hours ({} x {})", hours,
                     Counted(settings.ranks, "rank", "ranks"), FormatSeconds(run.All()));
  if (settings.price_per_hour > 0) {
    out +=
        fmt::format(" x {:g} = {:.4g}", settings.price_per_hour, hours * settings.price_per_hour);
  } else {
    out += "; no price was given";
  }
  return out + "\n";
}

// What was tried out.
std::string DescribeSample(const TrainConfig& config, const Placement& placement,
                           const StepSample& sample) {
  if (sample.rounds == 0) return fmt::format("basis  {:.1f} s of products\n", sample.seconds);
  const SampleShape& s = sample.shape;
  std::string out = fmt::format("basis  {} of this model", Counted(sample.rounds, "step", "steps"));
  if (s.layers < config.model.layers) {
    out += fmt::format(" with {}", Counted(s.layers, "layer", "layers"));
    if (s.fewer_layers > 0) out += fmt::format(", and as many with {}", s.fewer_layers);
  }
  out += fmt::format(", on {} of this process, timed here; {:.1f} s in all\n",
                     Counted(s.ranks, "thread", "threads that are ranks"), sample.seconds);
  const auto note = [&](const std::string& text) {
    out += "       " + text + "\n";
  };
  if (s.layers < config.model.layers) {
    note(s.fewer_layers > 0
             ? fmt::format("{} layers by a line through both", config.model.layers)
             : fmt::format("{} layers in proportion to operations and bytes", config.model.layers));
  }
  const size_t sequences = LargestMicroBatch(config, placement.ranks);
  if (s.sequences < sequences || s.seq < config.model.seq) {
    note(fmt::format("with {} of {} in place of {} of {}, in proportion to operations",
                     Counted(s.sequences, "sequence", "sequences"), s.seq, sequences,
                     config.model.seq));
  }
  if (config.accumulate > 2)
    note("with 1 and 2 micro-batches; further ones add as much as the second");
  if (!s.all_ranks) {
    note(fmt::format("{} ranks in proportion to the bytes that each updates and sends",
                     placement.ranks));
  }
  return out;
}

// What is not in the prediction, and what should make the reader doubt it.
std::string DescribeLimits(const TrainConfig& config, const Placement& placement,
                           const StepSample& sample, const StepTime& step) {
  std::string out;
  const auto note = [&](const std::string& text) {
    out += "       " + text + "\n";
  };
  const size_t local = placement.ranks_per_machine;
  const double sharing = placement.Sharing(local, config.threads);
  if (sharing > 1) {
    note(fmt::format(
        "{} x {} share {}, so computing takes {:.1f} times as long; a core for each "
        "thread: about {} per step",
        Counted(local, "rank", "ranks"), Counted(size_t(config.threads), "thread", "threads"),
        Counted(placement.cores, "core", "cores"), sharing,
        FormatSeconds(step.Seconds() / sharing)));
  }
  if (!placement.OneMachine()) {
    note(fmt::format(
        "links between machines are not known here, and add to this: a rank sends {} per step",
        FormatBytes(PlanRun(config, 0, placement.ranks).sharding.sent_bytes)));
  }
  if (!config.offload.empty())
    note("--offload: its reads and writes are not measured and add to this");
  note("not in it: reading text, the order-3 model, checkpoints");
  if (sample.cpu_share < kBusyShare) {
    note(
        fmt::format("the machine was BUSY: these threads had a core for {:.0f} % of the time, so "
                    "all of this is too slow; ask again when it is idle",
                    100 * sample.cpu_share));
  }
  return out;
}

std::string DescribePrediction(const TrainConfig& config, const DryRunSettings& settings) {
  const Placement placement = PlacementOf(settings);
  StepSample sample;
  try {
    sample = SampleSteps(config, placement);
  } catch (const RunFailure& failure) {
    return fmt::format("time   not predicted: {}\n", failure.what());
  }
  const StepTime step = PredictStep(config, placement, sample);
  const RunSeconds run = PredictRun(config, placement, step);
  return DescribeRate(config, sample) +
         DescribeTime(config, WorkOf(config), placement, sample, step) +
         DescribeCost(config, settings, sample, run) + DescribeSample(config, placement, sample) +
         DescribeLimits(config, placement, sample, step);
}

}  // namespace

RunWork WorkOf(const TrainConfig& config) {
  RunWork work;
  const double tokens_per_step = double(config.global_batch * config.model.seq);
  work.parameters = double(ParameterCount(ModelUnits(config.model)));
  work.tokens = double(config.steps) * tokens_per_step;
  work.flops_per_step = tokens_per_step * FlopsPerToken(config.model);
  work.flops = double(config.steps) * work.flops_per_step;
  work.flops_6nd = 6 * work.parameters * work.tokens;
  work.chinchilla_tokens = kChinchillaTokens * work.parameters;
  return work;
}

std::string DescribeDryRun(const TrainConfig& config, const DryRunSettings& settings) {
  CheckSettings(settings);
  CheckConfig(config, settings.ranks);
  return DescribePlan(config, PlanRun(config, 0, settings.ranks), settings.ranks,
                      /*train_bytes=*/0) +
         DescribeRanks(config, PlacementOf(settings)) + DescribeWork(WorkOf(config)) +
         DescribePrediction(config, settings);
}

std::string FormatFlops(double flops) {
  constexpr const char* kUnits[] = {"k", "M", "G", "T", "P", "E", "Z"};
  double amount = flops * 1e-3;
  size_t unit = 0;
  for (; amount >= 1000 && unit + 1 < std::size(kUnits); unit++)
    amount *= 1e-3;
  return fmt::format("{:.{}f} {}", amount, amount < 100 ? 2 : 1, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 2 : 1);
  if (seconds < 120) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const double minutes = seconds / 60;
  if (minutes < 120) {
    const long whole = std::lround(seconds);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  const long whole = std::lround(minutes);
  if (whole < 48l * 60) return fmt::format("{} h {:02} min", whole / 60, whole % 60);
  return fmt::format("{} days {} h", whole / 60 / 24, whole / 60 % 24);
}

}  // namespace weft::trainer
