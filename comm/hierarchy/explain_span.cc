#include "comm/hierarchy/explain_span.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/status.h"
#include "comm/engine/simulate_schedule.h"
#include "comm/hierarchy/span_price.h"
#include "comm/hierarchy/span_schedule.h"

namespace weft {
namespace {

// A message takes 1 ns, whatever it has.
constexpr LinkModel kLevelsOnly = {
    .near = {.latency_ns = 1}, .far = {.latency_ns = 1}, .ahead_bytes = UINT64_MAX};

}  // namespace

absl::StatusOr<SpanExplanation> ExplainSpan(const Collective& call, const Islands& islands,
                                            const LinkModel& model) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveSchedule> schedule,
                        ScheduleOf(call, /*rank=*/0, islands));
  UnitArithmetic arithmetic(ElementBytes(call));
  int pieces = 0;
  if (TraitsOf(call.kind).reduces) {
    pieces = AddsInAnyOrder(call) ? 1 : PiecesMax(islands);
    arithmetic = UnitArithmetic::Of(Isa::kScalar, call.dtype, call.op,
                                    static_cast<int>(islands.island_of.size()));
  }
  WEFT_ASSIGN_OR_RETURN(const SimulatedCost levels,
                        SimulateSchedule(*schedule, arithmetic, islands.island_of, kLevelsOnly));
  WEFT_ASSIGN_OR_RETURN(const SimulatedCost cost,
                        SimulateSchedule(*schedule, arithmetic, islands.island_of, model));
  const std::vector<uint64_t>& far = cost.far_bytes;
  return SpanExplanation{.schedule = std::string(schedule->algorithm()),
                         .pieces = pieces,
                         .levels = static_cast<int>(levels.end_ns),
                         .node_bytes = *std::max_element(far.begin(), far.end()),
                         .all_far_bytes = std::accumulate(far.begin(), far.end(), uint64_t{0}),
                         .all_near_bytes = cost.near_bytes,
                         .predicted_ns = cost.end_ns};
}

}  // namespace weft
