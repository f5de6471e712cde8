// What schedules cost: the ops of one participant, made one after the other, and the proof of all of them.
//
//   build/release/bench/schedule_bench [--benchmark_filter=all_reduce/33]
//
// make/ALGORITHM/GOAL/N: `ops` of the participant that has most of them (of three), made per second, and
// `state_bytes` of the stream that makes them.
// prove/ALGORITHM/GOAL/N: the proof, also in place, of all N.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/verify_schedule.h"

namespace weft {
namespace {

constexpr uint64_t kBenchUnits = 1 << 24;

ScheduleGoal BenchGoal(GoalKind kind, int participants, bool order_free) {
  return {.kind = kind,
          .participants = participants,
          .count = kind == GoalKind::kBarrier ? 0 : kBenchUnits,
          .order_free = order_free};
}

using SharedSchedule = std::shared_ptr<const CollectiveSchedule>;

void MakeOps(benchmark::State& state, const SharedSchedule& schedule) {
  const int n = schedule->goal().participants;
  uint64_t most = 0;
  int of = 0;
  for (const int participant : {0, n / 3, n - 1}) {
    uint64_t ops = 0;
    const std::unique_ptr<OpStream> stream = schedule->OpsOf(participant);
    for (ScheduleOp op; stream->Next(&op);)
      ++ops;
    if (ops <= most) continue;
    most = ops;
    of = participant;
  }
  uint64_t bytes = 0;
  ScheduleOp op;
  while (state.KeepRunning()) {
    const std::unique_ptr<OpStream> stream = schedule->OpsOf(of);
    bytes = malloc_usable_size(stream.get());
    while (stream->Next(&op))
      benchmark::DoNotOptimize(op.units);
  }
  state.counters["ops"] = static_cast<double>(most);
  state.counters["state_bytes"] = static_cast<double>(bytes);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(most));
}

void Prove(benchmark::State& state, const SharedSchedule& schedule) {
  uint64_t ops = 0;
  while (state.KeepRunning()) {
    const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*schedule);
    if (!proof.ok()) state.SkipWithError(std::string(proof.status().message()).c_str());
    if (proof.ok()) ops = proof->ops;
  }
  state.counters["ops"] = static_cast<double>(ops);
}

void Register(const ScheduleAlgorithm& algorithm, GoalKind kind) {
  for (const int n : {33, 1024, 65536}) {
    SharedSchedule schedule = algorithm.make(BenchGoal(kind, n, /*order_free=*/false));
    if (schedule == nullptr) schedule = algorithm.make(BenchGoal(kind, n, /*order_free=*/true));
    if (schedule == nullptr) return;
    const std::string name = fmt::format("{}/{}/{}", algorithm.name, GoalName(kind), n);
    benchmark::RegisterBenchmark(("make/" + name).c_str(), MakeOps, schedule);
    if (n == 33) benchmark::RegisterBenchmark(("prove/" + name).c_str(), Prove, schedule);
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  for (const weft::ScheduleAlgorithm& algorithm : weft::kScheduleAlgorithms) {
    for (const weft::GoalKind kind : weft::kGoalKinds)
      weft::Register(algorithm, kind);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
