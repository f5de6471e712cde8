// Context, what is whole only for a time: waiting for it, and agreeing on when it is needed.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

namespace weft {

void Context::Expect(weft_shard_mode_t mode, uint64_t tag) {
  const auto known = machine_->habits.find({mode, tag});
  const Habit& habit = known != machine_->habits.end() ? known->second : machine_->expected[mode];
  machine_->residence.BeginStep(habit.agreed ? &habit.schedule : nullptr, mode == WEFT_SHARD_TRAIN);
  machine_->state.ExpectRuns(habit.runs);
  std::iota(machine_->order.begin(), machine_->order.end(), 0);
  if (habit.agreed) machine_->order = habit.schedule.order;
}

absl::Status Context::Note(const Event& event) {
  return Latch(machine_->residence.Note(event));
}

absl::StatusOr<Works> Context::AskForUsed(int unit, Ask ask) {
  WEFT_RETURN_IF_ERROR(Advance());
  for (const int used : UsedBy(unit)) {
    absl::StatusOr<Works> works = (machine_->residence.*ask)(used);
    if (!works.ok()) return Latch(works.status());
    if (!works->empty()) return works;
  }
  return Works();
}

absl::Status Context::LetGoUsed(int unit, bool in_backward) {
  for (const int used : UsedBy(unit)) {
    if (machine_->state.Kept(used)) continue;
    WEFT_RETURN_IF_ERROR(Latch(machine_->residence.LetGo(used, in_backward)));
  }
  return absl::OkStatus();
}

absl::Status Context::WaitForUsed(int unit, Ask ask, Works works) {
  for (;;) {
    if (!works.empty()) {
      WEFT_RETURN_IF_ERROR(
          WaitForWorks(works,
                       StrCat("waiting for the parameters of unit ",
                              registry_.units()[static_cast<size_t>(unit)].name, ": "),
                       &gather_waited_ns_));
    }
    Section section(*this);
    WEFT_ASSIGN_OR_RETURN(works, AskForUsed(unit, ask));
    if (works.empty()) return absl::OkStatus();
  }
}

absl::Status Context::MakeGradients(int unit) {
  for (const int bucket : machine_->cut_buckets[static_cast<size_t>(unit)]) {
    bool fresh = false;
    for (;;) {
      Works works;
      {
        Section section(*this);
        WEFT_RETURN_IF_ERROR(Advance());
        absl::StatusOr<Works> needed = machine_->residence.NeedGradients(bucket, &fresh);
        if (!needed.ok()) return Latch(needed.status());
        works = *std::move(needed);
      }
      if (works.empty()) break;
      WEFT_RETURN_IF_ERROR(
          WaitForWorks(works,
                       StrCat("making room for the gradients of unit ",
                              registry_.units()[static_cast<size_t>(unit)].name, ": "),
                       &gather_waited_ns_));
    }
    if (fresh) Zero(bucket);
  }
  return absl::OkStatus();
}

absl::Status Context::MakeUntouched() {
  for (;;) {
    Works works;
    {
      Section section(*this);
      WEFT_RETURN_IF_ERROR(Advance());
      works = machine_->residence.NeedUntouched();
    }
    if (works.empty()) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(
        WaitForWorks(works, "making room for gradients that are missing: ", &gather_waited_ns_));
  }
}

absl::Status Context::WaitForWorks(const Works& works, std::string_view what, int64_t* waited_ns) {
  absl::Status first_failure;
  const int64_t begin_ns = MonotonicNs();
  for (const WorkRef& work : works) {
    const absl::Status status = Await(*work, what);
    if (!status.ok() && first_failure.ok()) first_failure = status;
  }
  *waited_ns += MonotonicNs() - begin_ns;
  return LatchUnlocked(Annotate(first_failure, what));
}

void Context::Zero(int bucket) const {
  std::memset(machine_->residence.BucketData(bucket), 0,
              machine_->layout.buckets[static_cast<size_t>(bucket)].bytes);
}

absl::Status Context::Drain() {
  Works works;
  {
    Section section(*this);
    works = machine_->residence.UnderWay();
  }
  absl::Status ended = WaitForWorks(works, "gathering parameters: ", &gather_waited_ns_);
  Section section(*this);
  machine_->residence.Drop();
  return ended;
}

absl::Status Context::AgreeOnOrder(weft_shard_step_result_t* result) {
  const std::vector<Event>& events = machine_->residence.events();
  const Kind kind{machine_->state.mode(), machine_->state.tag()};
  result->pool_bytes = machine_->residence.pool_bytes();
  if (!machine_->residence.gathers()) {
    Section section(*this);
    if (Habit* const habit = HabitOf(kind)) {
      habit->runs = RunsOf(events, registry_.units());
      if (options_.uneven) habit->schedule.events = events;
    }
    return absl::OkStatus();
  }
  const bool replayed = machine_->residence.on_schedule();
  WEFT_ASSIGN_OR_RETURN(const bool agreed, CompareOrder(events));
  result->replayed = replayed ? 1 : 0;
  result->order_changed = agreed && replayed ? 0 : 1;
  if (agreed && replayed) return absl::OkStatus();

  Habit learnt{.schedule = {.events = events}, .runs = RunsOf(events, registry_.units())};
  if (agreed) {
    learnt.schedule =
        MakeSchedule(ScheduleInputOf(PlanInputOf(), machine_->layout, kind.first), events);
    WarnOfBudget(learnt.schedule.pool_bytes);
    WEFT_ASSIGN_OR_RETURN(learnt.agreed, MakeRoom(learnt.schedule.pool_bytes));
    result->pool_bytes = machine_->residence.pool_bytes();
  }
  Section section(*this);
  if (machine_->state.training()) machine_->readiness.ForgetOrder(kind.second);
  if (Habit* const habit = HabitOf(kind)) *habit = std::move(learnt);
  return absl::OkStatus();
}

Context::Habit* Context::HabitOf(const Kind& kind) {
  constexpr size_t kHabitsMax = 128;
  const auto known = machine_->habits.find(kind);
  if (known != machine_->habits.end()) return &known->second;
  if (machine_->habits.size() == kHabitsMax) return nullptr;
  return &machine_->habits[kind];
}

absl::StatusOr<bool> Context::CompareOrder(const std::vector<Event>& events) {
  std::vector<int32_t> calls;
  for (const Event& event : events) {
    calls.push_back(static_cast<int32_t>(event.kind));
    calls.push_back(event.index);
  }
  const std::vector<Digest> digests = {DigestOf(calls.data(), calls.size() * sizeof(int32_t))};
  const absl::StatusOr<std::optional<Difference>> difference = FirstDifference(
      group(), digests, options_.timeout_ns, 1, purposes_.InStep(Purpose::Kind::kOrder));
  if (!difference.ok()) {
    return LatchUnlocked(Annotate(difference.status(), "finish, comparing the order of calls: "));
  }
  return !difference->has_value();
}

// False if some rank has no memory for it; what is there stays. All ranks ask for the same, and all ask the others
// or none does: a rank that had room where another had none has a larger pool.
absl::StatusOr<bool> Context::MakeRoom(size_t bytes) {
  if (bytes <= machine_->pool_bytes) return true;
  const absl::Status own = machine_->residence.Reserve(bytes);
  const absl::StatusOr<std::vector<uint64_t>> failed = GatherValue<uint64_t>(
      group(), own.ok() ? 0 : 1, options_.timeout_ns, purposes_.Of(Purpose::Kind::kAllocate));
  if (!failed.ok()) return LatchUnlocked(Annotate(failed.status(), "finish: "));
  const bool all =
      std::all_of(failed->begin(), failed->end(), [](uint64_t one) { return one == 0; });
  if (all) machine_->pool_bytes = bytes;
  return all;
}

// All ranks need the same; one says so.
void Context::WarnOfBudget(size_t pool_bytes) {
  if (options_.budget_bytes == 0 || pool_bytes <= options_.budget_bytes) return;
  if (std::exchange(warned_of_budget_, true) || group().rank() != 0) return;
  LogWarn(
      "finish on group ", group().name(), ": steps like this one need ", pool_bytes,
      " bytes on each rank for what is gathered, memory_budget_bytes is ", options_.budget_bytes,
      " and the plan said ", machine_->plan.pool_bytes,
      ", as units were not used once each, in the order of declaration or of the hint; they get "
      "the memory: pass the order to weft_shard_hint_order before finalize, which then checks it");
}

}  // namespace weft
