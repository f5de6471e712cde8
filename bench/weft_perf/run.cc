// All ranks walk through the same cases in the same order. What differs between them, such as memory and colours, is gathered
// first, and then all decide alike: a rank that left out a case would be waited for. A failure ends the world for that reason,
// but not wrong results, which all ranks have counted.
#include "bench/weft_perf/run.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include <unistd.h>

#include "weft/op.h"

#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {
namespace {

// The library's number of a reduction; for mulsum, which has none of its own, one made here and destroyed with the
// object.
class MadeOp {
 public:
  MadeOp() = default;

  ~MadeOp() {
    if (made_) static_cast<void>(weft_op_destroy(number_));
  }

  MadeOp(const MadeOp&) = delete;
  MadeOp& operator=(const MadeOp&) = delete;

  // At most once. `rank` decides the factor.
  Outcome Make(const Reduction& reduction, const ElementType& type, size_t rank) {
    number_ = reduction.op;
    if (!IsPremulSum(reduction)) return {};
    const uint64_t factor = EncodeElement(PremulFactor(rank), type);
    Outcome outcome =
        Called("making mulsum", weft_op_create_premul_sum(&factor, type.dtype, &number_));
    made_ = outcome.ok();
    return outcome;
  }

  // WEFT_SUM before Make.
  weft_op_t number() const { return number_; }

 private:
  weft_op_t number_ = WEFT_SUM;
  bool made_ = false;
};

// A line, in the words of nccl-tests, if the operation cannot be run with `ranks` ranks; else "".
std::string WhySkipped(const Options& options, size_t ranks) {
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (options.operation->kind != OperationKind::kHyperCube || power_of_two) return "";
  return Printf("nRanks %zu is not a power of 2, skipping\n", ranks);
}

// {nullptr} for an operation that has none.
std::vector<const Reduction*> ReductionsOf(const Options& options) {
  if (!options.operation->lists_reductions()) return {nullptr};
  return options.reductions;
}

// {0} for an operation that has none; `ranks`: of the smallest group that measures.
std::vector<size_t> RootsOf(const Options& options, size_t ranks) {
  if (!options.operation->rooted) return {0};
  if (options.root != kAllRoots) return {static_cast<size_t>(options.root)};
  std::vector<size_t> roots(ranks);
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

}  // namespace

Run::Run(const Options& options, int argc, char** argv, weft_group_t world, const Peers& peers)
    : options_(options),
      world_(world),
      group_(world),
      peers_(peers),
      output_(options, argc, argv, peers.rank() == 0) {}

Run::~Run() {
  if (group_ != world_) static_cast<void>(weft_group_destroy(group_));
}

Outcome Run::Split() {
  const int process = peers_.rank() / options_.ranks_per_process();
  if (Outcome o = SplitColor(std::getenv, process, &color_); !o.ok()) return o;
  // Every rank splits if any does: the variables may be set on some only.
  std::vector<double> colors;
  if (Outcome o = peers_.Gather(color_, &colors); !o.ok()) return o;
  std::map<int, RankGroup> by_color;
  for (size_t rank = 0; rank < colors.size(); ++rank) {
    const auto color = static_cast<int>(colors[rank]);
    by_color[color].color = color;
    by_color[color].ranks.push_back(rank);
  }
  for (auto& [color, group] : by_color)
    groups_.push_back(std::move(group));
  if (groups_.size() > 1) {
    Outcome o = Called("splitting the ranks",
                       weft_group_split(world_, color_, peers_.rank(), nullptr, &group_));
    if (!o.ok()) return o;
  }
  Peers measured;
  if (Outcome o = Peers::Make(group_, &measured); !o.ok()) return o;
  rank_ = measured.rank();
  size_ = measured.size();
  const auto smallest = static_cast<int>(smallest_group());
  if (!options_.operation->rooted || options_.root < smallest) return {};
  return Fail(ExitCode::kUsage,
              Printf("-r %d: the group has ranks 0 to %d only", options_.root, smallest - 1));
}

size_t Run::smallest_group() const {
  size_t smallest = SIZE_MAX;
  for (const RankGroup& group : groups_)
    smallest = std::min(smallest, group.ranks.size());
  return smallest;
}

// All ranks' lines, in rank order.
Outcome Run::ListDevices(std::vector<Device>* devices) {
  std::vector<std::string> keys;
  if (Outcome o = peers_.GatherText(HostKey(), &keys); !o.ok()) return o;
  const std::string& mine = keys[static_cast<size_t>(peers_.rank())];
  ranks_on_host_ = std::count(keys.begin(), keys.end(), mine);
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
    devices->push_back({static_cast<int>(rank), static_cast<int>(numbers[3 * rank]),
                        static_cast<int>(numbers[3 * rank + 1]), hosts[rank],
                        static_cast<int>(numbers[3 * rank + 2]), places[rank], models[rank]});
  }
  return {};
}

// Lowers the largest size to what fits if each rank has `copies` buffers of it. After ListDevices.
Outcome Run::FitSizes(size_t copies) {
  const size_t mine = LargestBufferBytes(AvailableMemoryBytes(), ranks_on_host_, copies);
  std::vector<double> limits;
  if (Outcome o = peers_.Gather(mine, &limits); !o.ok()) return o;
  const auto limit = static_cast<size_t>(*std::min_element(limits.begin(), limits.end()));
  if (options_.max_bytes <= limit) return {};
  options_.max_bytes = limit;
  output_.Print(Printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", limit));
  if (options_.min_bytes <= limit) return {};
  return Fail(ExitCode::kUsage, Printf("-b %zu does not fit into memory; at most %zu does",
                                       options_.min_bytes, limit));
}

Outcome Run::SetUp(size_t copies) {
  if (Outcome o = Split(); !o.ok()) return o;
  report().groups = groups_;
  if (Outcome o = ListDevices(&report().devices); !o.ok()) return o;
  output_.Print(PreambleText(report()));
  if (Outcome o = FitSizes(copies); !o.ok()) return o;
  if (options_.operation->layout != Layout::kTraffic) return {};
  if (Outcome o = Traffic::FromEnvironment(std::getenv, &traffic_); !o.ok()) return o;
  return traffic_.Check(size_, options_.min_bytes, options_.max_bytes);
}

Outcome Run::Allocate(Memory memory, Buffer* buffer) const {
  constexpr size_t kElementMax = 8;
  return buffer->Allocate(options_.max_bytes, options_.unalign * kElementMax, memory, group_);
}

Outcome Run::RunCases(Experiment& experiment) {
  if (const std::string why = WhySkipped(options_, smallest_group()); !why.empty()) {
    output_.Print(why);
    return {};
  }
  const Operation& operation = *options_.operation;
  for (const ElementType* type : options_.types) {
    for (const Reduction* reduction : ReductionsOf(options_)) {
      MadeOp op;
      if (operation.reduces) {
        if (Outcome o = op.Make(*reduction, *type, rank_); !o.ok()) return o;
      }
      for (const size_t root : RootsOf(options_, smallest_group())) {
        Job job;
        job.operation = &operation;
        job.type = type;
        job.reduction = reduction;
        job.op = op.number();
        job.root = root;
        job.rank = rank_;
        job.ranks = size_;
        job.offset = options_.unalign * type->size;
        job.traffic = &traffic_;
        if (Outcome o = experiment.RunOne(std::move(job)); !o.ok()) return o;
      }
    }
    if (operation.is_barrier()) break;
  }
  return {};
}

Outcome Run::RunSteps(Experiment& experiment) {
  if (Outcome o = SetUp(experiment.copies()); !o.ok()) return o;
  if (Outcome o = experiment.SetUp(); !o.ok()) return o;
  if (Outcome o = RunCases(experiment); !o.ok()) return o;
  return experiment.Conclude();
}

Outcome Run::Execute() {
  const std::unique_ptr<Experiment> experiment =
      options_.repro ? MakeRepro(*this) : MakeSweep(*this);
  const Outcome outcome = RunSteps(*experiment);
  // Results that all ranks found wrong are no reason to stop a peer.
  if (!outcome.ok() && outcome.code != ExitCode::kWrong) {
    static_cast<void>(weft_group_abort(world_, outcome.message.c_str()));
  }
  // What cannot be written is none either: the peers' last call may be under way still.
  return output_.Finish(outcome);
}

Outcome RunRank(const Options& options, int argc, char** argv, weft_group_t world) {
  Peers peers;
  if (Outcome o = Peers::Make(world, &peers); !o.ok()) return o;
  Outcome outcome = Run(options, argc, argv, world, peers).Execute();
  if (!outcome.ok()) outcome.message = Printf("rank %d: ", peers.rank()) + outcome.message;
  return outcome;
}

}  // namespace weft::perf
