// MakeSweep of run.h: what nccl-tests does. As there, all sizes are run once before the first is timed, so that no size pays for
// what is set up only once, and both halves of a row have numbers: what has no form in place is measured again as it is.
#include <algorithm>
#include <cstdlib>

#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/measure.h"
#include "bench/weft_perf/report.h"
#include "bench/weft_perf/run.h"

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

  double mean() const { return cells_ > 0 ? sum_ / cells_ : 0; }

  std::vector<double> group_means() const {
    std::vector<double> means;
    for (const double sum : group_sums_)
      means.push_back(sum / cells_);
    return means;
  }

 private:
  size_t cells_ = 0;
  double sum_ = 0;
  std::vector<double> group_sums_;
};

class Sweep : public Experiment {
 public:
  explicit Sweep(Run& run) : run_(run), options_(run.options()), output_(run.output()) {}

  // nccl-tests keeps a buffer of expected results as well when it checks.
  size_t copies() const override { return options_.checks > 0 ? 3 : 2; }

  Outcome SetUp() override;
  Outcome RunOne(Job job) override;
  Outcome Conclude() override;

 private:
  Outcome RunSize(Job job, size_t bytes);
  Outcome CompareWithBound(Job job);

  Run& run_;
  const Options& options_;
  Output& output_;
  Buffer send_;
  Buffer recv_;
  std::unique_ptr<Measure> measure_;
  double resident_at_start_ = ResidentBytes();
  double resident_before_ = 0;  // the first operation
  Totals totals_;
  MeanBandwidth bandwidth_;
  std::vector<Row> rows_;  // for --bound, on all ranks
};

Outcome Sweep::SetUp() {
  const bool shared = options_.memory == Memory::kShared;
  const Memory send_memory = shared ? Memory::kSymmetric : options_.memory;
  if (Outcome o = run_.Allocate(send_memory, &send_); !o.ok()) return o;
  if (Outcome o = run_.Allocate(options_.memory, &recv_); !o.ok()) return o;
  measure_ = std::make_unique<Measure>(run_);
  output_.Print(HeaderText(options_));
  resident_before_ = ResidentBytes();
  return {};
}

Outcome Sweep::RunSize(Job job, size_t bytes) {
  const Operation& operation = *job.operation;
  job.SetSize(bytes);
  Row row;
  row.bytes = job.extent.bytes();
  row.count = job.extent.count;
  row.type = operation.is_barrier() ? "none" : job.type->name;
  row.reduction = job.reduction != nullptr ? job.reduction->name : "none";
  row.root = operation.rooted ? static_cast<int>(job.root) : -1;
  std::string summaries;
  for (Cell* cell : {&row.out_of_place, &row.in_place}) {
    const bool second = cell == &row.in_place;
    // What has no form in place is measured once more as it is, so that both halves have numbers.
    // Inputs of a reduction cannot all lie where its one result does.
    job.in_place = second && operation.has_in_place() && !(job.shared_result && operation.reduces);
    const bool checked = !operation.is_barrier() && (!second || operation.checked_in_place);
    if (Outcome o = measure_->Time(job, checked, cell, &totals_.out_of_bounds); !o.ok()) return o;
    bandwidth_.Add(*cell);
    if (operation.layout == Layout::kTraffic && run_.traffic().print_summary()) {
      summaries += run_.traffic().SummaryText(job.ranks, row.count * job.ranks * job.type->size,
                                              cell->time_us * 1e-6);
    }
  }
  if (options_.bound) rows_.push_back(row);
  output_.AddRow(std::move(row));
  output_.Print(summaries);
  return {};
}

Outcome Sweep::RunOne(Job job) {
  job.send = &send_;
  job.recv = &recv_;
  job.shared_result = options_.memory == Memory::kShared;
  if (Outcome o = run_.peers().Barrier(); !o.ok()) return o;
  const bool barrier = options_.operation->is_barrier();
  for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
       bytes = std::max(bytes * 2, bytes + 1)) {
    job.SetSize(bytes);
    if (Outcome o = measure_->WarmUp(job, options_.warmup); !o.ok()) return o;
    if (barrier || bytes > SIZE_MAX / 2) break;
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
         bytes = options_.NextSize(bytes)) {
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

Outcome Sweep::Conclude() {
  if (options_.memory_report) {
    output_.Print(MemoryLine(resident_at_start_, send_.allocated() + recv_.allocated(),
                             ResidentBytes() - resident_before_));
  }
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

}  // namespace

std::unique_ptr<Experiment> MakeSweep(Run& run) {
  return std::make_unique<Sweep>(run);
}

}  // namespace weft::perf
