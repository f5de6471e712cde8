#include "shard/context/order_agreement.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/context/context_builder.h"

namespace weft {

absl::Status OrderAgreement::Agree(weft_shard_step_result_t* result) {
  Runtime& runtime = core_.runtime();
  const std::vector<Event>& events = runtime.unshard_manager.events();
  const StepKind kind = runtime.state.kind();
  result->pool_bytes = runtime.unshard_manager.pool_bytes();
  if (!runtime.gather_groups.any()) {
    Section section(core_.mutex);
    if (RecordedStep* const record = runtime.recorded.Record(kind)) {
      record->runs = RunsOf(events, core_.declared().registry.units());
      if (core_.options().uneven) record->schedule.events = events;
    }
    return absl::OkStatus();
  }
  const bool replayed = runtime.unshard_manager.on_schedule();
  WEFT_ASSIGN_OR_RETURN(const bool agreed, SameOnAllRanks(events));
  result->replayed = replayed ? 1 : 0;
  result->order_changed = agreed && replayed ? 0 : 1;
  if (agreed && replayed) return absl::OkStatus();

  RecordedStep learnt{.schedule = {.events = events},
                      .runs = RunsOf(events, core_.declared().registry.units())};
  if (agreed) {
    learnt.schedule = MakeSchedule(ScheduleInputOf(PlanInputOf(core_), runtime.layout, kind.first,
                                                   runtime.unit_places.places()),
                                   events);
    WarnOfBudget(learnt.schedule.pool_bytes + learnt.schedule.fixed_bytes);
    WEFT_ASSIGN_OR_RETURN(learnt.agreed, MakeRoom(learnt.schedule.pool_bytes));
    result->pool_bytes = runtime.unshard_manager.pool_bytes();
  }
  Section section(core_.mutex);
  if (runtime.state.training()) runtime.readiness.ForgetOrder(kind.second);
  if (RecordedStep* const record = runtime.recorded.Record(kind)) *record = std::move(learnt);
  return absl::OkStatus();
}

absl::StatusOr<bool> OrderAgreement::SameOnAllRanks(const std::vector<Event>& events) {
  std::vector<int32_t> calls;
  for (const Event& event : events) {
    calls.push_back(static_cast<int32_t>(event.kind));
    calls.push_back(event.index);
  }
  // Schedules keep to the places of units, so these must be the same as well: who had to go elsewhere follows from earlier calls.
  const std::vector<int>& moved = core_.runtime().unit_places.moved();
  calls.insert(calls.end(), moved.begin(), moved.end());
  const std::vector<Digest> digests = {DigestOf(calls.data(), calls.size() * sizeof(int32_t))};
  const absl::StatusOr<std::optional<Difference>> difference =
      FirstDifference(core_.group(), digests, core_.options().timeout_ns, 1,
                      core_.purposes().InStep(Purpose::Kind::kOrder));
  if (!difference.ok()) {
    return core_.LatchUnlocked(
        Annotate(difference.status(), "finish, comparing the order of calls: "));
  }
  return !difference->has_value();
}

// False if some rank has no memory for it; what is there stays. All ranks ask for the same, and all ask the others
// or none does: a rank that had room where another had none has a larger pool.
absl::StatusOr<bool> OrderAgreement::MakeRoom(size_t bytes) {
  const Runtime& runtime = core_.runtime();
  const size_t planned_bytes = runtime.plan.pool_bytes - runtime.unit_places.planned_bytes();
  if (bytes <= std::max(planned_bytes, pool_bytes_)) return true;
  const absl::Status own = core_.runtime().unshard_manager.Reserve(bytes);
  const absl::StatusOr<std::vector<uint64_t>> failed =
      GatherValue<uint64_t>(core_.group(), own.ok() ? 0 : 1, core_.options().timeout_ns,
                            core_.purposes().Of(Purpose::Kind::kAllocate));
  if (!failed.ok()) return core_.LatchUnlocked(Annotate(failed.status(), "finish: "));
  const bool all =
      std::all_of(failed->begin(), failed->end(), [](uint64_t one) { return one == 0; });
  if (all) pool_bytes_ = bytes;
  return all;
}

// All ranks need the same; one says so.
void OrderAgreement::WarnOfBudget(size_t pool_bytes) {
  if (core_.options().budget_bytes == 0 || pool_bytes <= core_.options().budget_bytes) return;
  if (std::exchange(warned_of_budget_, true) || core_.group().rank() != 0) return;
  LogWarn(
      "finish on group ", core_.group().name(), ": steps like this one need ", pool_bytes,
      " bytes on each rank for what is gathered, memory_budget_bytes is ",
      core_.options().budget_bytes, " and the plan said ", core_.runtime().plan.pool_bytes,
      ", as units were not used once each, in the order of declaration or of the hint; they get "
      "the memory: pass the order to weft_shard_hint_order before finalize, which then checks it");
}

}  // namespace weft
