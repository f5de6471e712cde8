// Context, ranks that have no data left: they go on with the others, with gradients of zero.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

namespace weft {
namespace {

// What a rank is about to do in a step; travels as numbers.
struct Turn {
  uint64_t active = 0;  // it has data
  uint64_t mode = 0;
  uint64_t tag = 0;
};

constexpr size_t kTurnNumbers = sizeof(Turn) / sizeof(uint64_t);

std::string TextOf(const Turn& turn) {
  return StrCat(turn.mode == WEFT_SHARD_TRAIN ? "TRAIN" : "EVAL", ", tag ", turn.tag);
}

}  // namespace

// Collective; all ranks see the same turns and so return the same.
absl::StatusOr<int> Context::TakeTurn(bool active) {
  Turn own{.active = active ? 1u : 0u};
  {
    Section section(*this);
    own.mode = static_cast<uint64_t>(machine_->state.mode());
    own.tag = machine_->state.tag();
  }
  std::vector<Turn> turns(static_cast<size_t>(group().size()));
  const absl::Status gathered = group().Run({.kind = OpKind::kAllGather,
                                             .dtype = WEFT_UINT64,
                                             .count = kTurnNumbers,
                                             .purpose = purposes_.Of(Purpose::Kind::kJoin),
                                             .in = &own,
                                             .out = turns.data(),
                                             .timeout_ns = options_.timeout_ns});
  if (!gathered.ok()) {
    return LatchUnlocked(Annotate(gathered, active ? "microbatch_begin, asking who has data: "
                                                   : "join, asking who has data: "));
  }
  for (size_t rank = 1; rank < turns.size(); ++rank) {
    if (turns[rank].mode == turns[0].mode && turns[rank].tag == turns[0].tag) continue;
    return LatchUnlocked(MakeError(
        WEFT_MISMATCH, CulpritOf(group(), static_cast<int>(rank), "step_begin"),
        StrCat("step_begin on group ", group().name(), ": rank ", rank, " began a step of ",
               TextOf(turns[rank]), ", rank 0 one of ", TextOf(turns[0]),
               "; every rank must begin the same steps, also one that has no data left")));
  }
  return static_cast<int>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.active != 0; }));
}

absl::StatusOr<int> Context::Join() {
  std::vector<Event> events;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("join"));
    if (!options_.uneven) {
      return MakeError(WEFT_BAD_STATE, {.operation = "join"},
                       "join: the context does not expect ranks without data; set uneven in its "
                       "config, on every rank");
    }
    WEFT_RETURN_IF_ERROR(machine_->state.CheckJoin());
    events = EventsOf({machine_->state.mode(), machine_->state.tag()});
  }
  WEFT_ASSIGN_OR_RETURN(const int active, TakeTurn(/*active=*/false));
  if (active == 0) {
    Section section(*this);
    machine_->state.AbandonStep();
    return 0;
  }
  joined_ = true;
  const absl::Status walked = Walk(events);
  joined_ = false;
  WEFT_RETURN_IF_ERROR(walked);
  return active;
}

// What the others will do: what they did the last time, or what is expected of the first.
std::vector<Event> Context::EventsOf(const Kind& kind) const {
  const auto known = machine_->habits.find(kind);
  if (known != machine_->habits.end() && !known->second.schedule.events.empty()) {
    return known->second.schedule.AllEvents();
  }
  const Schedule& expected = machine_->expected[kind.first].schedule;
  if (!expected.events.empty()) return expected.AllEvents();
  return ExpectedEvents(PlanInputOf(), kind.first);
}

// Nobody has compared them, so the next step of this kind is served on demand, on all ranks alike.
void Context::RememberCalls() {
  const Kind kind{machine_->state.mode(), machine_->state.tag()};
  std::vector<Event> events = machine_->residence.events();
  events.push_back({Event::Kind::kFinish, 0});
  if (EventsOf(kind) == events) return;
  if (Habit* const habit = HabitOf(kind)) *habit = {.schedule = {.events = std::move(events)}};
}

// Gradients are zeroed before they may be written, so nothing else has to be done to have zeros.
absl::Status Context::Walk(const std::vector<Event>& events) {
  int microbatch = 0;
  for (const Event& event : events) {
    switch (event.kind) {
      case Event::Kind::kMicrobatchBegin:
        WEFT_RETURN_IF_ERROR(MicrobatchBegin(microbatch++, event.index == 1));
        break;
      case Event::Kind::kPreForward:
        WEFT_RETURN_IF_ERROR(PreForward(event.index));
        break;
      case Event::Kind::kPostForward:
        WEFT_RETURN_IF_ERROR(PostForward(event.index));
        break;
      case Event::Kind::kPreBackward:
        WEFT_RETURN_IF_ERROR(PreBackward(event.index));
        break;
      case Event::Kind::kPostBackward:
        WEFT_RETURN_IF_ERROR(PostBackward(event.index));
        break;
      case Event::Kind::kUnshard:
        WEFT_RETURN_IF_ERROR(UnshardStart(event.index));
        break;
      case Event::Kind::kReshard:
        WEFT_RETURN_IF_ERROR(UnshardWait(event.index));
        WEFT_RETURN_IF_ERROR(Reshard(event.index));
        break;
      case Event::Kind::kMicrobatchEnd:
        WEFT_RETURN_IF_ERROR(MicrobatchEnd());
        break;
      case Event::Kind::kFinish:
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
