#include "comm/schedule/verify_schedule.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/schedule/op_graph.h"
#include "comm/schedule/symbolic_execution.h"
#include "comm/schedule/unit_access.h"

namespace weft {
namespace {

absl::Status Refuse(std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, what);
}

// The buffers of one participant.
class BufferTable {
 public:
  BufferTable(const CollectiveSchedule& schedule, int participant)
      : buffers_({{BufferUnits(schedule.goal(), participant, kInputBuffer), UnitForm::kElement},
                  {BufferUnits(schedule.goal(), participant, kOutputBuffer), UnitForm::kElement},
                  {BufferUnits(schedule.goal(), participant, kPartialsBuffer),
                   UnitForm::kAccumulator}}) {
    for (const ScratchBuffer& scratch : schedule.ScratchOf(participant))
      buffers_.push_back(scratch);
  }

  // None for a buffer that there is not.
  uint64_t UnitsOf(uint32_t buffer) const {
    return buffer < buffers_.size() ? buffers_[buffer].units : 0;
  }

  UnitForm FormOf(uint32_t buffer) const {
    return buffer < buffers_.size() ? buffers_[buffer].form : UnitForm::kElement;
  }

 private:
  std::vector<ScratchBuffer> buffers_;
};

// V1 of one op.
absl::Status CheckOp(const ScheduleGoal& goal, const BufferTable& buffers, const ScheduleOp& op,
                     std::string_view name) {
  const uint64_t sources = SourceCount(op);
  const bool writes = op.action != OpAction::kSend;
  const bool one_source = op.action == OpAction::kSend || op.action == OpAction::kCopy;
  if (op.action == OpAction::kRecv ? sources != 0 : one_source ? sources != 1 : sources == 0) {
    return Refuse(StrCat(name, " has ", sources, " sources"));
  }
  if (writes) {
    const uint64_t size = buffers.UnitsOf(op.to.buffer);
    if (op.to.offset > size || op.units > size - op.to.offset) {
      return Refuse(StrCat(name, " writes ", op.units, " units at ", op.to.offset, " of buffer ",
                           op.to.buffer, ", which has ", size));
    }
    if (op.units > 0 && (op.to.buffer == kInputBuffer || op.to.buffer == kPartialsBuffer))
      return Refuse(StrCat(name, " writes to its input"));
  }
  for (const SourceRun& run : op.from) {
    const uint64_t size = buffers.UnitsOf(run.place.buffer);
    const uint64_t room = run.place.offset > size || op.units > size - run.place.offset
                              ? 0
                              : size - run.place.offset - op.units;
    const bool fits = run.place.offset <= size && op.units <= size - run.place.offset &&
                      (run.count <= 1 || run.stride <= room / (run.count - 1));
    if (run.count == 0 || !fits) {
      return Refuse(StrCat(name, " reads ", op.units, " units at ", run.place.offset, " of buffer ",
                           run.place.buffer, ", ", run.count, " times ", run.stride,
                           " apart; it has ", size));
    }
    if (op.action == OpAction::kCopy &&
        buffers.FormOf(run.place.buffer) != buffers.FormOf(op.to.buffer)) {
      return Refuse(StrCat(name, " copies between elements and accumulators"));
    }
  }
  if (op.action != OpAction::kReduce) return absl::OkStatus();
  const bool to_elements = buffers.FormOf(op.to.buffer) == UnitForm::kElement;
  if (!goal.Reduces()) return Refuse(StrCat(name, " in a schedule that adds nothing"));
  if (op.stage == SumStage::kFinal && !to_elements)
    return Refuse(StrCat(name, " keeps a result in accumulators"));
  if (op.stage == SumStage::kPartial && to_elements && !goal.order_free) {
    return Refuse(StrCat(name, " rounds a sum that goes on"));
  }
  return absl::OkStatus();
}

absl::Status CheckOps(const CollectiveSchedule& schedule, const OpGraph& graph,
                      const std::vector<BufferTable>& buffers) {
  for (OpId id = 0; id < graph.ops().size(); ++id) {
    const auto participant = static_cast<size_t>(graph.ParticipantOf(id));
    WEFT_RETURN_IF_ERROR(
        CheckOp(schedule.goal(), buffers[participant], graph.ops()[id], graph.Describe(id)));
  }
  // Both halves of a message agree on what a unit is.
  for (OpId id = 0; id < graph.ops().size(); ++id) {
    const ScheduleOp& op = graph.ops()[id];
    if (op.action != OpAction::kSend) continue;
    const UnitForm sent =
        buffers[static_cast<size_t>(graph.ParticipantOf(id))].FormOf(op.from[0].place.buffer);
    const ScheduleOp& recv = graph.ops()[graph.OtherHalf(id)];
    if (sent != buffers[static_cast<size_t>(op.peer)].FormOf(recv.to.buffer)) {
      return Refuse(StrCat(graph.Describe(id), " sends ",
                           sent == UnitForm::kElement ? "elements" : "accumulators",
                           ", and its receive expects the other"));
    }
  }
  return absl::OkStatus();
}

// V3 of one participant.
absl::Status CheckRaces(const CollectiveSchedule& schedule, OpGraph* graph, int participant,
                        bool in_place) {
  std::vector<UnitAccess> accesses;
  for (OpId id = graph->FirstOf(participant); id < graph->EndOf(participant); ++id) {
    if (!AppendAccesses(schedule.goal(), participant, graph->ops()[id], id, in_place, &accesses)) {
      return Refuse(StrCat(graph->Describe(id), " writes over a part of one of its sources",
                           in_place ? " in place" : ""));
    }
  }
  std::sort(accesses.begin(), accesses.end(), [](const UnitAccess& a, const UnitAccess& b) {
    return std::pair(a.buffer, a.begin) < std::pair(b.buffer, b.begin);
  });
  for (size_t i = 0; i < accesses.size(); ++i) {
    const UnitAccess& a = accesses[i];
    for (size_t k = i + 1;
         k < accesses.size() && accesses[k].buffer == a.buffer && accesses[k].begin < a.end; ++k) {
      const UnitAccess& b = accesses[k];
      if (a.op == b.op || (!a.writes && !b.writes)) continue;
      if (graph->IsBefore(std::min(a.op, b.op), std::max(a.op, b.op)) ||
          graph->IsBefore(std::max(a.op, b.op), std::min(a.op, b.op))) {
        continue;
      }
      return Refuse(StrCat(graph->Describe(a.op), " and ", graph->Describe(b.op), " touch unit ",
                           b.begin, " of buffer ", b.buffer, " in no order",
                           in_place ? " in place" : ""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBarrier(const CollectiveSchedule& schedule, const OpGraph& graph) {
  for (int participant = 0; participant < schedule.goal().participants; ++participant) {
    const std::vector<bool> awaits = graph.WhoAwaits(participant);
    const auto missing = std::find(awaits.begin(), awaits.end(), false);
    if (missing != awaits.end()) {
      return Refuse(StrCat("participant ", missing - awaits.begin(),
                           " may leave the barrier before ", participant, " has come"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSent(const CollectiveSchedule& schedule, const OpGraph& graph,
                       const std::vector<BufferTable>& buffers, ScheduleProof* proof) {
  for (int participant = 0; participant < schedule.goal().participants; ++participant) {
    SentUnits& sent = proof->sent.emplace_back();
    for (OpId id = graph.FirstOf(participant); id < graph.EndOf(participant); ++id) {
      const ScheduleOp& op = graph.ops()[id];
      if (op.action != OpAction::kSend) continue;
      const bool elements = buffers[static_cast<size_t>(participant)].FormOf(
                                op.from[0].place.buffer) == UnitForm::kElement;
      (elements ? sent.elements : sent.accumulators) += op.units;
      if (op.units > 0 || schedule.sends_empty()) ++proof->messages;
    }
    const SentUnits claimed = schedule.SentBy(participant);
    if (sent != claimed) {
      return Refuse(StrCat("participant ", participant, " sends ", sent.elements, " elements and ",
                           sent.accumulators, " accumulators; by the algorithm it is ",
                           claimed.elements, " and ", claimed.accumulators));
    }
    proof->ops_max =
        std::max<uint64_t>(proof->ops_max, graph.EndOf(participant) - graph.FirstOf(participant));
  }
  proof->ops = graph.ops().size();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScheduleProof> VerifySchedule(const CollectiveSchedule& schedule) {
  WEFT_RETURN_IF_ERROR(CheckGoal(schedule.goal()));
  WEFT_ASSIGN_OR_RETURN(OpGraph graph, OpGraph::Create(schedule));
  std::vector<BufferTable> buffers;
  buffers.reserve(static_cast<size_t>(schedule.goal().participants));
  for (int participant = 0; participant < schedule.goal().participants; ++participant)
    buffers.emplace_back(schedule, participant);
  WEFT_RETURN_IF_ERROR(CheckOps(schedule, graph, buffers));
  ScheduleProof proof;
  proof.in_place = schedule.in_place();
  if (proof.in_place && !HasPlaceInPlace(schedule.goal())) {
    return Refuse(
        StrCat("a schedule of ", GoalName(schedule.goal().kind), " cannot be used in place"));
  }
  for (const bool in_place : {false, true}) {
    if (in_place && !proof.in_place) continue;
    for (int participant = 0; participant < schedule.goal().participants; ++participant) {
      WEFT_RETURN_IF_ERROR(CheckRaces(schedule, &graph, participant, in_place));
    }
    WEFT_RETURN_IF_ERROR(ExecuteSymbolically(schedule, graph, in_place));
  }
  if (schedule.goal().kind == GoalKind::kBarrier)
    WEFT_RETURN_IF_ERROR(CheckBarrier(schedule, graph));
  WEFT_RETURN_IF_ERROR(CheckSent(schedule, graph, buffers, &proof));
  proof.levels = graph.Levels();
  return proof;
}

}  // namespace weft
