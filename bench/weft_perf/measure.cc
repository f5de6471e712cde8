// The protocol is that of nccl-tests, so that figures compare. Between two iterations there is no barrier and no clock is read
// unless -z or -I asks for it: for small operations either would be most of the time. Operations under way share no buffer,
// which bounds how many there can be (Rotation).
#include "bench/weft_perf/measure.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "bench/weft_perf/machine.h"

namespace weft::perf {
namespace {

// Enough to keep the library busy, few enough that its queue stays short.
constexpr size_t kUnderWayMax = 64;

}  // namespace

double Seconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

Measure::Measure(Run& run)
    : options_(run.options()), run_(run), group_(run.group()), peers_(run.peers()) {
  if (options_.timeout_s <= 0) return;
  call_.struct_size = sizeof(call_);
  call_.timeout_ns = int64_t{options_.timeout_s} * 1'000'000'000;
  call_or_null_ = &call_;
}

Measure::~Measure() {
  for (weft_work_t work : under_way_)
    static_cast<void>(weft_work_free(work));
}

Outcome Measure::CallFailure(const Job* job, weft_result_t result) const {
  // With -T the rank that sees the deadline first ends the group, which the others see as an abort.
  const bool late = result == WEFT_TIMEOUT || result == WEFT_ABORTED;
  std::string doing = options_.operation->name;
  if (job != nullptr) {
    doing += Printf(" of %zu %s %s", job->extent.count, job->type->name,
                    job->in_place ? "in place" : "out of place");
  }
  Outcome failure = LibraryFailure(doing, result);
  if (options_.timeout_s > 0 && late) {
    failure.code = ExitCode::kTimeout;
    failure.message = Printf("%s: Test timeout (%ds) in ", HostName().c_str(), options_.timeout_s) +
                      failure.message;
  }
  return failure;
}

size_t Measure::Rotation(const Job& job) const {
  const size_t bytes = job.extent.bytes();
  if (bytes == 0) return kUnderWayMax;
  return options_.hot ? 1 : std::max<size_t>(1, options_.max_bytes / bytes);
}

size_t Measure::ShiftOf(const Job& job, uint64_t iteration) const {
  return job.extent.bytes() * (iteration % Rotation(job));
}

Outcome Measure::Start(const Job& job, uint64_t iteration) {
  const size_t shift = ShiftOf(job, iteration);
  if (!options_.asynchronous && options_.aggregated == 1) {
    const weft_result_t result = job.Start(group_, call_or_null_, shift, nullptr);
    return result == WEFT_SUCCESS ? Outcome{} : CallFailure(&job, result);
  }
  // An operation owns its buffers until it is done.
  if (under_way_.size() >= std::min(kUnderWayMax, Rotation(job))) {
    if (Outcome waited = WaitOldest(); !waited.ok()) return waited;
  }
  weft_work_t work = nullptr;
  const weft_result_t result = job.Start(group_, call_or_null_, shift, &work);
  if (result != WEFT_SUCCESS) return CallFailure(&job, result);
  if (work != nullptr) under_way_.push_back(work);
  return {};
}

Outcome Measure::WaitOldest() {
  weft_work_t work = under_way_.front();
  under_way_.pop_front();
  const weft_result_t result = weft_work_wait(work, 0);
  Outcome outcome = result == WEFT_SUCCESS ? Outcome{} : CallFailure(nullptr, result);
  static_cast<void>(weft_work_free(work));
  return outcome;
}

Outcome Measure::WaitAll() {
  while (!under_way_.empty()) {
    if (Outcome waited = WaitOldest(); !waited.ok()) return waited;
  }
  return {};
}

Outcome Measure::WarmUp(const Job& job, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (Outcome started = Start(job, i); !started.ok()) return started;
  }
  return WaitAll();
}

// One iteration: -m operations and the waits that -z, -m and -I ask for. *excluded grows by the
// time that does not count.
Outcome Measure::Iterate(const Job& job, uint64_t iteration, double* excluded) {
  const uint64_t aggregated = options_.aggregated;
  const Blocking blocking = options_.blocking;
  for (uint64_t i = 0; i < aggregated; ++i) {
    if (Outcome o = Start(job, iteration * aggregated + i); !o.ok()) return o;
    if (blocking != Blocking::kWaitAndBarrier && blocking != Blocking::kWait) continue;
    if (Outcome o = WaitAll(); !o.ok()) return o;
    if (blocking == Blocking::kWait) continue;
    if (Outcome o = peers_.Barrier(); !o.ok()) return o;
  }
  if (!options_.asynchronous || blocking == Blocking::kBarrierOutsideTime) {
    if (Outcome o = WaitAll(); !o.ok()) return o;
  }
  if (blocking == Blocking::kBarrierOutsideTime) {
    const double before = Seconds();
    if (Outcome o = peers_.Barrier(); !o.ok()) return o;
    *excluded += Seconds() - before;
  }
  return {};
}

Outcome Measure::TimeIterations(const Job& job, double* cpu_seconds, double* seconds,
                                std::vector<double>* single) {
  double excluded = 0;
  const double begin = Seconds();
  for (int i = 0; i < options_.iterations; ++i) {
    const double excluded_before = excluded;
    const double iteration_begin = options_.per_iteration ? Seconds() : 0;
    if (Outcome o = Iterate(job, i, &excluded); !o.ok()) return o;
    if (!options_.per_iteration) continue;
    const double spent = Seconds() - iteration_begin - (excluded - excluded_before);
    single->push_back(spent / options_.aggregated * 1e6);
  }
  const double started = Seconds();
  if (Outcome o = WaitAll(); !o.ok()) return o;
  const double operations = 1.0 * options_.iterations * options_.aggregated;
  *cpu_seconds = (started - begin - excluded) / operations;
  *seconds = (Seconds() - begin - excluded) / operations;
  return {};
}

Outcome Measure::SummariseIterations(const std::vector<double>& single, Cell* cell) {
  std::vector<double> all;
  if (Outcome o = peers_.Gather(single, &all); !o.ok()) return o;
  Iterations iterations;
  iterations.times_us = SlowestPerIteration(all, single.size());
  iterations.summary =
      Summarise(std::span(iterations.times_us).subspan(options_.per_iteration_skip));
  for (size_t at = 0; at < all.size(); at += single.size()) {
    const auto of_rank = std::span(all).subspan(at, single.size());
    iterations.of_ranks_us.emplace_back(of_rank.begin(), of_rank.end());
  }
  cell->iterations = std::move(iterations);
  return {};
}

// Each group by its own size and the times of its own ranks.
void Measure::MeasureGroups(const Job& job, std::span<const double> of_ranks, Cell* cell) const {
  if (run_.groups().size() < 2) return;
  for (const RankGroup& group : run_.groups()) {
    std::vector<double> times;
    for (const size_t rank : group.ranks)
      times.push_back(of_ranks[rank]);
    const size_t ranks = times.size();
    const double seconds = Combine(times, options_.average);
    const Extent extent = ExtentOf(*job.operation, job.bytes, job.type->size, ranks, job.traffic);
    cell->groups.push_back(
        {seconds * 1e6, BandwidthOf(*job.operation, extent, job.type->size, ranks, seconds)});
  }
}

Outcome Measure::Check(const Job& job, Cell* cell, int* failed_checks) {
  for (int i = 0; i < options_.checks; ++i) {
    const uint64_t seed = ++seed_;
    job.Prepare(seed);
    if (Outcome o = Start(job, 0); !o.ok()) return o;
    if (Outcome o = WaitAll(); !o.ok()) return o;
    std::vector<double> wrong;
    if (Outcome o = peers_.Gather(job.CountWrong(seed), &wrong); !o.ok()) {
      return o;
    }
    double total = 0;
    for (const double of_rank : wrong) {
      total += of_rank;
      if (of_rank > 0) ++*failed_checks;
    }
    cell->wrong = total;
    if (total > 0) break;
  }
  return {};
}

Outcome Measure::Time(const Job& job, bool checked, Cell* cell, int* failed_checks) {
  if (options_.checks > 0) job.Prepare(++seed_);
  if (Outcome o = Start(job, 0); !o.ok()) return o;
  if (Outcome o = WaitAll(); !o.ok()) return o;
  if (Outcome o = peers_.Barrier(); !o.ok()) return o;
  double cpu_seconds = 0;
  double seconds = 0;
  std::vector<double> single;
  single.reserve(options_.per_iteration ? options_.iterations : 0);
  if (Outcome o = TimeIterations(job, &cpu_seconds, &seconds, &single); !o.ok()) return o;

  const double mine[] = {seconds, cpu_seconds};
  std::vector<double> all;
  if (Outcome o = peers_.Gather(mine, &all); !o.ok()) return o;
  std::vector<double> of_ranks;
  for (size_t i = 0; i < all.size(); i += 2)
    of_ranks.push_back(all[i]);
  seconds = Combine(of_ranks, options_.average);
  cell->bandwidth = BandwidthOf(*job.operation, job.extent, job.type->size, job.ranks, seconds);
  cell->time_us = (options_.cpu_time ? all[1] : seconds) * 1e6;
  MeasureGroups(job, of_ranks, cell);
  if (options_.per_iteration) {
    if (Outcome o = SummariseIterations(single, cell); !o.ok()) return o;
  }
  if (Outcome o = peers_.Barrier(); !o.ok()) return o;
  return checked ? Check(job, cell, failed_checks) : Outcome{};
}

Outcome Measure::CopyRate(const Job& job, double* rate) {
  constexpr size_t kCopiedBytes = 256u << 20;
  const size_t bytes = job.extent.bytes();
  const size_t repeats = std::clamp<size_t>(kCopiedBytes / std::max<size_t>(bytes, 1), 4, 20000);
  const auto copy = [&](uint64_t iteration) {
    const size_t at = job.offset + ShiftOf(job, iteration);
    std::memcpy(job.recv->data() + at, job.send->data() + at, bytes);
  };
  copy(0);
  if (Outcome o = peers_.Barrier(); !o.ok()) return o;
  const double begin = Seconds();
  for (size_t i = 0; i < repeats; ++i)
    copy(i);
  const double mine = bytes * repeats / 1e9 / std::max(Seconds() - begin, 1e-9);
  std::vector<double> all;
  if (Outcome o = peers_.Gather(mine, &all); !o.ok()) return o;
  *rate = 0;
  for (const double of_rank : all)
    *rate += of_rank;
  return {};
}

}  // namespace weft::perf
