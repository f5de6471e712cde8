#include "bench/weft_perf/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <unistd.h>

#include "bench/weft_perf/bound.h"
#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/measure.h"
#include "bench/weft_perf/output.h"
#include "bench/weft_perf/peers.h"
#include "bench/weft_perf/table.h"

namespace weft::perf {
namespace {

class Sweep {
 public:
  Sweep(const Options& options, int argc, char** argv, weft_group_t world, const Peers& peers)
      : options_(options),
        world_(world),
        peers_(peers),
        output_(options, argc, argv, peers.rank() == 0) {}

  ~Sweep() {
    if (group_ != world_) static_cast<void>(weft_group_destroy(group_));
  }

  Outcome Run();

 private:
  Outcome SplitGroup();
  Outcome ListDevices();
  Outcome LimitMemory();
  Outcome RunAll();
  Outcome RunOne(const ElementType& type, const Reduction* reduction, int root);
  Outcome RunSize(Job job, size_t bytes);
  Outcome CompareWithBound(Job job);
  Outcome Conclude();
  size_t NextSize(size_t bytes) const;
  Job MakeJob(const ElementType& type, const Reduction* reduction, int root);

  Options options_;
  weft_group_t world_;
  weft_group_t group_ = nullptr;  // what is measured: world_, or a part of it (NCCL_TESTS_SPLIT)
  Peers peers_;
  Output output_;
  int color_ = 0;
  int group_rank_ = 0;
  int group_size_ = 1;
  int ranks_on_host_ = 1;
  Buffer send_;
  Buffer recv_;
  std::unique_ptr<Measure> measure_;
  Totals totals_;
  double bandwidth_sum_ = 0;
  size_t bandwidth_count_ = 0;
  std::vector<Row> rows_;  // for --bound, on all ranks
};

Outcome Sweep::SplitGroup() {
  group_ = world_;
  const int process = peers_.rank() / options_.ranks_per_process();
  if (Outcome o = SplitColor(std::getenv, process, &color_); !o.ok()) return o;
  // Every rank splits if any does: the variables may be set on some only.
  std::vector<double> colors;
  if (Outcome o = peers_.Gather(color_, &colors); !o.ok()) return o;
  const bool one = std::equal(colors.begin() + 1, colors.end(), colors.begin());
  if (!one) {
    const weft_result_t result = weft_group_split(world_, color_, peers_.rank(), nullptr, &group_);
    if (result != WEFT_SUCCESS) return LibraryFailure("splitting the ranks", result);
  }
  weft_result_t result = weft_group_rank(group_, &group_rank_);
  if (result == WEFT_SUCCESS) result = weft_group_size(group_, &group_size_);
  if (result != WEFT_SUCCESS) return LibraryFailure("asking for the rank", result);
  if (options_.operation->rooted && options_.root >= group_size_) {
    return Fail(ExitCode::kUsage,
                Printf("-r %d: the group has ranks 0 to %d only", options_.root, group_size_ - 1));
  }
  return {};
}

Outcome Sweep::ListDevices() {
  std::vector<std::string> keys;
  if (Outcome o = peers_.GatherText(HostKey(), &keys); !o.ok()) return o;
  const std::string& mine = keys[static_cast<size_t>(peers_.rank())];
  ranks_on_host_ = static_cast<int>(std::count(keys.begin(), keys.end(), mine));
  const auto device =
      static_cast<int>(std::count(keys.begin(), keys.begin() + peers_.rank(), mine));

  std::vector<double> numbers;
  const double numbers_of_mine[] = {static_cast<double>(color_), static_cast<double>(getpid()),
                                    static_cast<double>(device)};
  std::vector<std::string> hosts;
  std::vector<std::string> places;
  std::vector<std::string> models;
  if (Outcome o = peers_.Gather(numbers_of_mine, &numbers); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(HostName(), &hosts); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(CpuPlace(), &places); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(CpuModel(), &models); !o.ok()) return o;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    output_.report().devices.push_back({static_cast<int>(rank), static_cast<int>(numbers[3 * rank]),
                                        static_cast<int>(numbers[3 * rank + 1]), hosts[rank],
                                        static_cast<int>(numbers[3 * rank + 2]), places[rank],
                                        models[rank]});
  }
  output_.Print(PreambleText(output_.report()));
  return {};
}

Outcome Sweep::LimitMemory() {
  // nccl-tests keeps a buffer of expected results as well when it checks.
  const size_t mine =
      LargestBufferBytes(AvailableMemoryBytes(), ranks_on_host_, options_.checks > 0 ? 3 : 2);
  std::vector<double> limits;
  if (Outcome o = peers_.Gather(static_cast<double>(mine), &limits); !o.ok()) return o;
  const auto limit = static_cast<size_t>(*std::min_element(limits.begin(), limits.end()));
  if (options_.max_bytes <= limit) return {};
  options_.max_bytes = limit;
  output_.Print(Printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", limit));
  if (options_.min_bytes <= limit) return {};
  return Fail(ExitCode::kUsage, Printf("-b %zu does not fit into memory; at most %zu does",
                                       options_.min_bytes, limit));
}

size_t Sweep::NextSize(size_t bytes) const {
  if (options_.step_factor > 1) {
    // Past the end instead of around it.
    return bytes > SIZE_MAX / options_.step_factor ? SIZE_MAX : bytes * options_.step_factor;
  }
  return bytes > SIZE_MAX - options_.step_bytes ? SIZE_MAX : bytes + options_.step_bytes;
}

Job Sweep::MakeJob(const ElementType& type, const Reduction* reduction, int root) {
  Job job;
  job.operation = options_.operation;
  job.type = &type;
  job.reduction = reduction;
  job.root = root;
  job.rank = group_rank_;
  job.ranks = group_size_;
  job.send = &send_;
  job.recv = &recv_;
  job.offset = options_.unalign * type.size;
  return job;
}

Outcome Sweep::RunSize(Job job, size_t bytes) {
  job.extent = ExtentOf(*job.operation, bytes, job.type->size, job.ranks);
  const bool barrier = job.operation->kind == OperationKind::kBarrier;
  Row row;
  row.bytes = job.extent.bytes();
  row.count = job.extent.count;
  row.type = barrier ? "none" : job.type->name;
  row.reduction = job.reduction != nullptr ? job.reduction->name : "none";
  row.root = job.operation->rooted ? job.root : -1;
  for (Cell* cell : {&row.out_of_place, &row.in_place}) {
    job.in_place = cell == &row.in_place;
    if (Outcome o = measure_->Time(job, cell, &totals_.out_of_bounds); !o.ok()) return o;
    bandwidth_sum_ += cell->bandwidth.bus;
    ++bandwidth_count_;
  }
  if (options_.bound) rows_.push_back(row);
  output_.AddRow(std::move(row));
  return {};
}

Outcome Sweep::RunOne(const ElementType& type, const Reduction* reduction, int root) {
  Job job = MakeJob(type, reduction, root);
  if (Outcome o = peers_.Barrier(); !o.ok()) return o;
  const bool barrier = options_.operation->kind == OperationKind::kBarrier;
  for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
       bytes = std::max(bytes * 2, bytes + 1)) {
    job.extent = ExtentOf(*job.operation, bytes, type.size, job.ranks);
    if (Outcome o = measure_->WarmUp(job, options_.warmup); !o.ok()) return o;
    if (barrier || bytes > SIZE_MAX / 2) break;
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes = NextSize(bytes)) {
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
    output_.Print(BoundLine(row, *job.operation, job.ranks, options_.symmetric, rate));
  }
  rows_.clear();
  return {};
}

Outcome Sweep::RunAll() {
  const Operation& operation = *options_.operation;
  // An operation without a reduction or a root runs once where others run for each of them.
  std::vector<const Reduction*> reductions = {nullptr};
  if (operation.reduces) reductions = options_.reductions;
  std::vector<int> roots = {operation.rooted ? options_.root : 0};
  if (operation.rooted && options_.root == kAllRoots) {
    roots.clear();
    for (int root = 0; root < group_size_; ++root)
      roots.push_back(root);
  }
  for (const ElementType* type : options_.types) {
    for (const Reduction* reduction : reductions) {
      for (const int root : roots) {
        if (Outcome o = RunOne(*type, reduction, root); !o.ok()) return o;
      }
    }
    if (operation.kind == OperationKind::kBarrier) break;
  }
  return {};
}

Outcome Sweep::Conclude() {
  totals_.bus_bandwidth =
      bandwidth_count_ > 0 ? bandwidth_sum_ / static_cast<double>(bandwidth_count_) : 0;
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
  if (Outcome o = SplitGroup(); !o.ok()) return o;
  if (Outcome o = ListDevices(); !o.ok()) return o;
  if (Outcome o = LimitMemory(); !o.ok()) return o;
  constexpr size_t kElementMax = 8;
  const size_t shift_max = options_.unalign * kElementMax;
  for (Buffer* buffer : {&send_, &recv_}) {
    Outcome o = buffer->Allocate(options_.max_bytes, shift_max, options_.symmetric);
    if (!o.ok()) return o;
  }
  measure_ = std::make_unique<Measure>(options_, group_, peers_);
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
  }
  if (!outcome.ok()) outcome.message = Printf("rank %d: ", peers.rank()) + outcome.message;
  return outcome;
}

}  // namespace weft::perf
