#include "bench/weft_perf/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "bench/weft_perf/bound.h"
#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/made_op.h"
#include "bench/weft_perf/measure.h"
#include "bench/weft_perf/output.h"
#include "bench/weft_perf/peers.h"
#include "bench/weft_perf/plan.h"
#include "bench/weft_perf/stage.h"
#include "bench/weft_perf/table.h"
#include "bench/weft_perf/traffic.h"

namespace weft::perf {
namespace {

// The mean bus bandwidth over all cells of the table, and of each group when there are several.
class MeanBandwidth {
 public:
  void Add(const Cell& cell) {
    ++cells_;
    sum_ += cell.bandwidth.bus;
    group_sums_.resize(cell.groups.size());
    for (size_t i = 0; i < cell.groups.size(); ++i)
      group_sums_[i] += cell.groups[i].bandwidth.bus;
  }

  double mean() const { return cells_ > 0 ? sum_ / static_cast<double>(cells_) : 0; }

  std::vector<double> group_means() const {
    std::vector<double> means;
    for (const double sum : group_sums_)
      means.push_back(sum / static_cast<double>(cells_));
    return means;
  }

 private:
  size_t cells_ = 0;
  double sum_ = 0;
  std::vector<double> group_sums_;
};

class Sweep {
 public:
  Sweep(const Options& options, int argc, char** argv, weft_group_t world, const Peers& peers)
      : options_(options),
        stage_(options, world, peers),
        output_(options, argc, argv, peers.rank() == 0) {}

  Outcome Run();

  Outcome written() const { return output_.Written(); }

 private:
  Outcome ListDevices();
  Outcome LimitMemory();
  Outcome ReadTraffic();
  Outcome RunAll();
  Outcome RunOne(const ElementType& type, const Reduction* reduction, int root);
  Outcome RunSize(Job job, size_t bytes);
  Outcome CompareWithBound(Job job);
  Outcome Conclude();
  Job MakeJob(const ElementType& type, const Reduction* reduction, int root);

  Options options_;
  Stage stage_;
  Output output_;
  Buffer send_;
  Buffer recv_;
  Traffic traffic_;
  std::unique_ptr<Measure> measure_;
  Totals totals_;
  MeanBandwidth bandwidth_;
  std::vector<Row> rows_;  // for --bound, on all ranks
};

Outcome Sweep::ListDevices() {
  if (Outcome o = stage_.ListDevices(&output_.report().devices); !o.ok()) return o;
  output_.report().groups = stage_.groups();
  output_.Print(PreambleText(output_.report()));
  return {};
}

Outcome Sweep::LimitMemory() {
  // nccl-tests keeps a buffer of expected results as well when it checks.
  std::string note;
  Outcome outcome = stage_.FitSizes(options_.checks > 0 ? 3 : 2, &options_, &note);
  output_.Print(note);
  return outcome;
}

Outcome Sweep::ReadTraffic() {
  if (options_.operation->layout != Layout::kTraffic) return {};
  if (Outcome o = Traffic::FromEnvironment(std::getenv, &traffic_); !o.ok()) return o;
  return traffic_.Check(stage_.size(), options_.min_bytes, options_.max_bytes);
}

Job Sweep::MakeJob(const ElementType& type, const Reduction* reduction, int root) {
  Job job;
  job.operation = options_.operation;
  job.type = &type;
  job.reduction = reduction;
  job.root = root;
  job.rank = stage_.rank();
  job.ranks = stage_.size();
  job.send = &send_;
  job.recv = &recv_;
  job.offset = options_.unalign * type.size;
  job.traffic = &traffic_;
  job.shared_result = options_.memory == Memory::kShared;
  return job;
}

Outcome Sweep::RunSize(Job job, size_t bytes) {
  const Operation& operation = *job.operation;
  job.SetSize(bytes);
  Row row;
  row.bytes = job.extent.bytes();
  row.count = job.extent.count;
  row.type = operation.is_barrier() ? "none" : job.type->name;
  row.reduction = job.reduction != nullptr ? job.reduction->name : "none";
  row.root = operation.rooted ? job.root : -1;
  std::string summaries;
  for (Cell* cell : {&row.out_of_place, &row.in_place}) {
    const bool second = cell == &row.in_place;
    // What has no form in place is measured once more as it is, so that both halves have numbers.
    // Inputs of a reduction cannot all lie where its one result does.
    job.in_place = second && operation.has_in_place() && !(job.shared_result && operation.reduces);
    const bool checked = !operation.is_barrier() && (!second || operation.checked_in_place);
    if (Outcome o = measure_->Time(job, checked, cell, &totals_.out_of_bounds); !o.ok()) return o;
    bandwidth_.Add(*cell);
    if (operation.layout == Layout::kTraffic && traffic_.print_summary()) {
      summaries += traffic_.SummaryText(job.ranks,
                                        row.count * static_cast<size_t>(job.ranks) * job.type->size,
                                        cell->time_us * 1e-6);
    }
  }
  if (options_.bound) rows_.push_back(row);
  output_.AddRow(std::move(row));
  output_.Print(summaries);
  return {};
}

Outcome Sweep::RunOne(const ElementType& type, const Reduction* reduction, int root) {
  Job job = MakeJob(type, reduction, root);
  MadeOp op;
  if (options_.operation->reduces) {
    if (Outcome o = op.Make(*reduction, type, job.rank); !o.ok()) return o;
    job.op = op.number();
  }
  if (Outcome o = stage_.peers().Barrier(); !o.ok()) return o;
  const bool barrier = options_.operation->is_barrier();
  for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
       bytes = std::max(bytes * 2, bytes + 1)) {
    job.SetSize(bytes);
    if (Outcome o = measure_->WarmUp(job, options_.warmup); !o.ok()) return o;
    if (barrier || bytes > SIZE_MAX / 2) break;
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
         bytes = NextSize(options_, bytes)) {
      if (Outcome o = RunSize(job, bytes); !o.ok()) return o;
      if (barrier) break;
    }
  }
  return options_.bound && !barrier ? CompareWithBound(job) : Outcome{};
}

Outcome Sweep::CompareWithBound(Job job) {
  output_.Print(BoundHeader());
  for (const Row& row : rows_) {
    if (row.bytes < kLeastBoundBytes) continue;
    job.extent = {};
    job.extent.send_bytes = row.bytes;
    double rate = 0;
    if (Outcome o = measure_->CopyRate(job, &rate); !o.ok()) return o;
    output_.Print(
        BoundLine(row, *job.operation, job.ranks, options_.memory != Memory::kPrivate, rate));
  }
  rows_.clear();
  return {};
}

Outcome Sweep::RunAll() {
  const int smallest = stage_.smallest_group();
  if (const std::string why = WhySkipped(options_, smallest); !why.empty()) {
    output_.Print(why);
    return {};
  }
  for (const ElementType* type : options_.types) {
    for (const Reduction* reduction : ReductionsOf(options_)) {
      for (const int root : RootsOf(options_, smallest)) {
        if (Outcome o = RunOne(*type, reduction, root); !o.ok()) return o;
      }
    }
    if (options_.operation->is_barrier()) break;
  }
  return {};
}

Outcome Sweep::Conclude() {
  totals_.bus_bandwidth = bandwidth_.mean();
  totals_.group_bandwidths = bandwidth_.group_means();
  totals_.least_bandwidth = LeastBandwidth(std::getenv);
  output_.report().totals = totals_;
  if (totals_.out_of_bounds > 0) {
    return Fail(ExitCode::kWrong, Printf("%d checks found wrong elements", totals_.out_of_bounds));
  }
  if (totals_.slow()) {
    return Fail(ExitCode::kWrong,
                Printf("average bus bandwidth %g GB/s is below 0.9 x NCCL_TESTS_MIN_BW=%g",
                       totals_.bus_bandwidth, totals_.least_bandwidth));
  }
  return {};
}

Outcome Sweep::Run() {
  const double memory_at_start = ResidentBytes();
  if (Outcome o = stage_.Split(); !o.ok()) return o;
  if (Outcome o = ListDevices(); !o.ok()) return o;
  if (Outcome o = LimitMemory(); !o.ok()) return o;
  if (Outcome o = ReadTraffic(); !o.ok()) return o;
  constexpr size_t kElementMax = 8;
  const size_t shift_max = options_.unalign * kElementMax;
  const bool shared = options_.memory == Memory::kShared;
  const Memory send_memory = shared ? Memory::kSymmetric : options_.memory;
  if (Outcome o = send_.Allocate(options_.max_bytes, shift_max, send_memory); !o.ok()) return o;
  if (Outcome o = recv_.Allocate(options_.max_bytes, shift_max, options_.memory, stage_.group());
      !o.ok()) {
    return o;
  }
  measure_ = std::make_unique<Measure>(options_, stage_);
  output_.Print(HeaderText(options_));
  const double memory_before = ResidentBytes();
  Outcome outcome = RunAll();
  if (outcome.ok() && options_.memory_report) {
    output_.Print(MemoryLine(memory_at_start,
                             static_cast<double>(send_.allocated() + recv_.allocated()),
                             ResidentBytes() - memory_before));
  }
  if (outcome.ok()) outcome = Conclude();
  if (!outcome.ok() && outcome.code != ExitCode::kWrong) {
    output_.report().errors.push_back(outcome.message);
  }
  output_.Finish();
  return outcome;
}

}  // namespace

Outcome RunSweep(const Options& options, int argc, char** argv, weft_group_t world) {
  Peers peers;
  if (Outcome o = Peers::Make(world, &peers); !o.ok()) return o;
  Outcome outcome;
  {
    Sweep sweep(options, argc, argv, world, peers);
    outcome = sweep.Run();
    // Results that all ranks found wrong are no reason to stop a peer.
    if (!outcome.ok() && outcome.code != ExitCode::kWrong) {
      static_cast<void>(weft_group_abort(world, outcome.message.c_str()));
    }
    // The peers' last call may be under way still, and is none of this.
    if (outcome.ok()) outcome = sweep.written();
  }
  if (!outcome.ok()) outcome.message = Printf("rank %d: ", peers.rank()) + outcome.message;
  return outcome;
}

}  // namespace weft::perf
