// MakeRepro of run.h. Hashes are compared between ways, sizes and runs, so inputs depend on kReproSeed, rank and index alone, and
// kReproSeed never changes. An algorithm that the library refuses is left out if all ranks are refused; if only some are, that is a
// failure, and no result.
#include "bench/weft_perf/repro.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "weft/error.h"

#include "bench/weft_perf/run.h"

namespace weft::perf {
namespace {

constexpr const char* kAlgorithms[] = {nullptr, "slot", "staged", "direct", "single_copy"};

// How one call is made.
struct Way {
  Memory memory = Memory::kPrivate;
  bool in_place = false;
  bool blocking = true;
  const char* algorithm = nullptr;
};

// Every way in which one set of ranks can do an operation.
std::vector<Way> WaysOf(const Operation& operation) {
  // The steps of a message have no algorithm to choose.
  const bool messages =
      operation.kind == OperationKind::kSendRecv || operation.kind == OperationKind::kHyperCube;
  std::vector<Way> ways;
  for (const Memory memory : {Memory::kPrivate, Memory::kSymmetric}) {
    for (const bool in_place : {false, true}) {
      if (in_place && !operation.has_in_place()) continue;
      for (const bool blocking : {true, false}) {
        for (const char* algorithm : kAlgorithms) {
          if (messages && algorithm != nullptr) continue;
          ways.push_back({memory, in_place, blocking, algorithm});
        }
      }
    }
  }
  return ways;
}

// "processes", "threads": what the ranks of these lines are.
std::string RanksAre(const std::vector<Device>& devices) {
  std::set<std::pair<std::string, int>> processes;
  for (const Device& device : devices)
    processes.emplace(device.host, device.pid);
  if (processes.size() == devices.size()) return "processes";
  return processes.size() == 1 ? "threads" : "processes-of-threads";
}

class Repro : public Experiment {
 public:
  explicit Repro(Run& run) : run_(run), options_(run.options()), output_(run.output()) {}

  size_t copies() const override { return 5; }

  Outcome SetUp() override;
  Outcome RunOne(Job job) override;
  Outcome Conclude() override;

 private:
  // What a rank tells of its result.
  struct Hashes {
    std::string whole;  // empty: this rank gets no result
    std::string prefix;
    size_t stray_bytes = 0;
  };

  Outcome RunWay(Job job, const Way& way, const Pattern& input);
  Outcome Call(const Job& job, const Way& way, std::optional<std::string>* unsupported);
  Hashes HashResult(const Job& job) const;
  Outcome Record(const Job& job, const Way& way, const Hashes& mine);

  Run& run_;
  const Options& options_;
  Output& output_;
  Buffer private_send_;
  Buffer private_recv_;
  Buffer symmetric_send_;
  Buffer symmetric_recv_;
  std::string ranks_are_;
  std::string isa_;
  std::string nodes_;
  std::string transport_;
  std::vector<size_t> prefix_counts_;  // of the pieces of the smallest size's result
  ReproSummary summary_;               // rank 0
};

Outcome Repro::SetUp() {
  if (run_.groups().size() > 1) {
    return Fail(ExitCode::kUsage,
                "--repro compares the results of one group; unset NCCL_TESTS_SPLIT");
  }
  ranks_are_ = RanksAre(run_.report().devices);
  const char* isa = std::getenv("WEFT_ISA");
  isa_ = isa != nullptr && *isa != '\0' ? isa : "best";
  const char* nodes = std::getenv("WEFT_FAKE_NODES");
  nodes_ = nodes != nullptr && *nodes != '\0' ? nodes : "1";
  if (nodes_ != "1") {
    const char* transport = std::getenv("WEFT_TRANSPORT");
    transport_ = transport != nullptr && *transport != '\0' ? transport : "auto";
  }
  for (Buffer* buffer : {&private_send_, &private_recv_, &symmetric_send_, &symmetric_recv_}) {
    const bool is_private = buffer == &private_send_ || buffer == &private_recv_;
    Outcome o = run_.Allocate(is_private ? Memory::kPrivate : Memory::kSymmetric, buffer);
    if (!o.ok()) return o;
  }
  return {};
}

// An algorithm that the library does not have for this call is no failure if all ranks say so.
Outcome Repro::Call(const Job& job, const Way& way, std::optional<std::string>* unsupported) {
  weft_call_t call = {};
  call.struct_size = sizeof(call);
  call.timeout_ns = int64_t{options_.timeout_s} * 1'000'000'000;
  call.algorithm = way.algorithm;
  call.fields = way.algorithm != nullptr ? WEFT_CALL_STRICT_ALGORITHM : 0;
  weft_work_t work = nullptr;
  weft_result_t result = job.Start(run_.group(), &call, 0, way.blocking ? nullptr : &work);
  if (result == WEFT_SUCCESS && work != nullptr) result = weft_work_wait(work, 0);
  const std::string algorithm = way.algorithm != nullptr ? way.algorithm : "auto";
  Outcome failure = LibraryFailure(Printf("%s of %zu %s, algorithm %s", job.operation->name,
                                          job.extent.count, job.type->name, algorithm.c_str()),
                                   result);
  if (work != nullptr) static_cast<void>(weft_work_free(work));
  if (result != WEFT_SUCCESS && (result != WEFT_UNSUPPORTED || way.algorithm == nullptr)) {
    return failure;
  }
  std::vector<double> results;
  if (Outcome o = run_.peers().Gather(result, &results); !o.ok()) return o;
  if (std::count(results.begin(), results.end(), results[0]) != std::ssize(results)) {
    return Fail(ExitCode::kLibrary,
                "some ranks have the algorithm and some do not: " + failure.message);
  }
  if (result == WEFT_UNSUPPORTED) *unsupported = failure.message;
  return {};
}

Repro::Hashes Repro::HashResult(const Job& job) const {
  Hashes hashes;
  hashes.stray_bytes = job.CountChangedCanariesAround();
  const std::vector<Piece> pieces = job.Result();
  if (pieces.empty()) return hashes;
  std::vector<std::span<const unsigned char>> whole;
  std::vector<std::span<const unsigned char>> prefix;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const unsigned char* at = job.recv_data(0) + pieces[i].at * job.type->size;
    whole.emplace_back(at, pieces[i].count * job.type->size);
    const size_t first = i < prefix_counts_.size() ? prefix_counts_[i] : 0;
    prefix.emplace_back(at, std::min(first, pieces[i].count) * job.type->size);
  }
  hashes.whole = HashText(whole);
  hashes.prefix = HashText(prefix);
  return hashes;
}

Outcome Repro::Record(const Job& job, const Way& way, const Hashes& mine) {
  std::vector<std::string> wholes;
  std::vector<std::string> prefixes;
  std::vector<double> strays;
  if (Outcome o = run_.peers().GatherText(mine.whole, &wholes); !o.ok()) return o;
  if (Outcome o = run_.peers().GatherText(mine.prefix, &prefixes); !o.ok()) return o;
  const double stray = mine.stray_bytes;
  if (Outcome o = run_.peers().Gather(stray, &strays); !o.ok()) return o;
  if (run_.rank() != 0) return {};
  ReproResult result;
  result.operation = job.operation->name;
  result.type = job.type->name;
  result.reduction = job.reduction != nullptr ? job.reduction->name : "none";
  result.root = job.operation->rooted ? static_cast<int>(job.root) : -1;
  result.ranks = job.ranks;
  result.bytes = job.extent.bytes();
  result.count = job.extent.count;
  result.ranks_are = ranks_are_;
  result.isa = isa_;
  result.nodes = nodes_;
  result.transport = transport_;
  result.algorithm = way.algorithm != nullptr ? way.algorithm : "auto";
  result.memory = MemoryName(way.memory);
  result.in_place = way.in_place;
  result.blocking = way.blocking;
  result.hash = HashOfRanks(wholes, job.operation->same_result, &result.ranks_agree);
  result.prefix_hash = HashOfRanks(prefixes, job.operation->same_result, &result.ranks_agree);
  for (const double of_rank : strays)
    result.stray_bytes += static_cast<size_t>(of_rank);
  if (options_.repro_world) {
    output_.Print(ReproLine(result));
  } else {
    summary_.Add(std::move(result));
  }
  return {};
}

Outcome Repro::RunWay(Job job, const Way& way, const Pattern& input) {
  const bool symmetric = way.memory == Memory::kSymmetric;
  job.send = symmetric ? &symmetric_send_ : &private_send_;
  job.recv = symmetric ? &symmetric_recv_ : &private_recv_;
  job.in_place = way.in_place;
  job.PrepareBlocks(input);
  std::optional<std::string> unsupported;
  if (Outcome o = Call(job, way, &unsupported); !o.ok()) return o;
  if (!unsupported.has_value()) return Record(job, way, HashResult(job));
  if (run_.rank() != 0) return {};
  const ReproSkip skip{way.algorithm, 1, *unsupported};
  if (options_.repro_world) {
    output_.Print(ReproLine(skip));
  } else {
    summary_.Add(skip);
  }
  return {};
}

Outcome Repro::RunOne(Job job) {
  DataKey key = job.Key(kReproSeed);
  key.length = SIZE_MAX;
  const Pattern input = Pattern::OrderSensitive(key, job.rank);
  prefix_counts_.clear();
  for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
       bytes = options_.NextSize(bytes)) {
    job.SetSize(bytes);
    if (prefix_counts_.empty() && job.extent.bytes() > 0) {
      for (const Piece& piece : job.Result())
        prefix_counts_.push_back(piece.count);
    }
    for (const Way& way : WaysOf(*job.operation)) {
      if (Outcome o = RunWay(job, way, input); !o.ok()) return o;
    }
  }
  return {};
}

Outcome Repro::Conclude() {
  if (run_.rank() != 0 || options_.repro_world) return {};
  output_.Print(summary_.Text());
  run_.report().repro = summary_;
  if (summary_.ok()) return {};
  return Fail(ExitCode::kWrong, "results that must have the same bits differ");
}

}  // namespace

std::unique_ptr<Experiment> MakeRepro(Run& run) {
  return std::make_unique<Repro>(run);
}

}  // namespace weft::perf
