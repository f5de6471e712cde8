#include "comm/engine/simulate_schedule.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/status.h"
#include "comm/engine/schedule_run.h"
#include "comm/transport/simulated_network.h"
#include "fmt/format.h"

namespace weft {

absl::StatusOr<SimulatedCost> SimulateSchedule(const CollectiveSchedule& schedule,
                                               const UnitArithmetic& arithmetic,
                                               const std::vector<int>& island_of,
                                               const LinkModel& model) {
  SimulatedNetwork network(island_of, model);
  const int size = schedule.goal().participants;
  std::vector<int> everybody(static_cast<size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<ScheduleRun>> runs;
  for (const int rank : everybody) {
    transports.push_back(network.Join(rank));
    runs.push_back(std::make_unique<ScheduleRun>(schedule, rank, arithmetic));
    runs.back()->Begin(
        {.sizes_only = true},
        {.transport = transports.back().get(), .peers = everybody, .stream = {1, 1}});
  }
  SimulatedCost cost;
  for (std::vector<int> next = everybody; !next.empty(); next = network.GoOn()) {
    for (const int rank : next) {
      ScheduleRun& run = *runs[static_cast<size_t>(rank)];
      (void)run.Step();
      if (run.done()) cost.end_ns = network.now_ns();
    }
  }
  const auto stuck =
      std::find_if(runs.begin(), runs.end(), [](const auto& run) { return !run->done(); });
  if (stuck != runs.end()) {
    return MakeError(
        WEFT_INTERNAL_ERROR,
        fmt::format("schedule {}: participant {} waits for {} and nothing is under way",
                    schedule.algorithm(), stuck - runs.begin(), (*stuck)->WaitsFor()));
  }
  cost.far_bytes.resize(static_cast<size_t>(*std::max_element(island_of.begin(), island_of.end())) +
                        1);
  for (const int rank : everybody) {
    const auto island = static_cast<size_t>(island_of[static_cast<size_t>(rank)]);
    cost.far_bytes[island] += network.far_bytes(rank);
    cost.near_bytes += network.near_bytes(rank);
  }
  return cost;
}

bool HasMoreOps(const CollectiveSchedule& schedule, uint64_t ops_max) {
  const uint64_t each = ops_max / static_cast<uint64_t>(schedule.goal().participants);
  const std::unique_ptr<OpStream> stream = schedule.OpsOf(0);
  uint64_t ops = 0;
  for (ScheduleOp op; stream->Next(&op);) {
    if (++ops > each) return true;
  }
  return false;
}

}  // namespace weft
