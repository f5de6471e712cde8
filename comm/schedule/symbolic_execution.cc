#include "comm/schedule/symbolic_execution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/schedule/symbolic_buffer.h"
#include "comm/schedule/unit_access.h"

namespace weft {
namespace {

// A range of an output and what the goal wants there.
struct WantedRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  int32_t leaf = -1;  // the contribution; -1: the sum of all
  int64_t shift = 0;
};

std::vector<WantedRun> WantedOf(const ScheduleGoal& goal, int participant) {
  const uint64_t count = goal.count;
  const auto block = [&](int number) {
    return static_cast<int64_t>(goal.BlockBegin(number));
  };
  std::vector<WantedRun> wanted;
  switch (goal.kind) {
    case GoalKind::kAllReduce:
      return {{0, count, -1, 0}};
    case GoalKind::kReduce:
      if (participant == goal.root) wanted.push_back({0, count, -1, 0});
      return wanted;
    case GoalKind::kReduceScatter:
      return {{0, goal.BlockUnits(participant), -1, block(participant)}};
    case GoalKind::kBroadcast:
      return {{0, count, goal.root, 0}};
    case GoalKind::kScatter:
      return {{0, count, goal.root, block(participant)}};
    case GoalKind::kGather:
      if (participant != goal.root) return wanted;
      [[fallthrough]];
    case GoalKind::kAllGather:
    case GoalKind::kAllToAll:
      for (int from = 0; from < goal.participants; ++from) {
        const uint64_t begin = goal.BlockBegin(from);
        const int64_t shift =
            goal.kind == GoalKind::kAllToAll ? block(participant) - block(from) : -block(from);
        wanted.push_back({begin, begin + goal.BlockUnits(from), from, shift});
      }
      return wanted;
    case GoalKind::kScan:
      return {{0, count, -1, 0}};
    case GoalKind::kExscan:
      if (participant != 0) wanted.push_back({0, count, -1, 0});
      return wanted;
    case GoalKind::kBarrier:
      return wanted;
  }
  return wanted;
}

class SymbolicMachine {
 public:
  SymbolicMachine(const CollectiveSchedule& schedule, bool in_place)
      : goal_(schedule.goal()), order_(goal_.EffectiveOrder()), in_place_(in_place) {
    for (int participant = 0; participant < goal_.participants; ++participant) {
      std::vector<SymbolicBuffer>& buffers = memory_.emplace_back();
      for (const uint32_t buffer : {kInputBuffer, kOutputBuffer, kPartialsBuffer})
        buffers.emplace_back(BufferUnits(goal_, participant, buffer));
      for (const ScratchBuffer& scratch : schedule.ScratchOf(participant))
        buffers.emplace_back(scratch.units);
      FillInputs(participant);
    }
  }

  absl::Status Run(const OpGraph& graph) {
    for (const OpId id : graph.order()) {
      const ScheduleOp& op = graph.ops()[id];
      const int participant = graph.ParticipantOf(id);
      // A send's units are taken with its receive, which comes behind it.
      if (op.units == 0 || op.action == OpAction::kSend) continue;
      std::vector<SymbolicRun> value;
      if (op.action == OpAction::kRecv) {
        value = Read(op.peer, graph.ops()[graph.OtherHalf(id)].from[0].place, op.units);
      } else if (op.action == OpAction::kCopy) {
        value = Read(participant, op.from[0].place, op.units);
      } else {
        WEFT_ASSIGN_OR_RETURN(value, Reduce(graph, id));
      }
      for (const SymbolicRun& run : value) {
        if (run.sum == kNoSum) {
          return MakeError(WEFT_INVALID_ARGUMENT,
                           StrCat(graph.Describe(id), " takes what nobody has written"));
        }
      }
      const UnitPlace to = PlaceInMemory(goal_, participant, op.to, in_place_);
      Buffer(participant, to.buffer).Write(to.offset, value);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    std::vector<SumId> leaves;
    for (int piece = 0; piece < order_.pieces() && goal_.Reduces(); ++piece)
      leaves.push_back(sums_.Leaf(piece));
    const SumId whole = leaves.empty() ? kNoSum : sums_.Final(sums_.Tree(leaves, order_.merges()));
    for (int participant = 0; participant < goal_.participants; ++participant) {
      const int summed = goal_.Reduces() ? goal_.SummedPieces(participant) : 0;
      const bool part = goal_.IsPrefix() && summed > 0;
      const SumId sum =
          part ? sums_.Final(sums_.Tree(std::span(leaves).first(static_cast<size_t>(summed)), {}))
               : whole;
      for (const WantedRun& wanted : WantedOf(goal_, participant)) {
        if (wanted.begin == wanted.end) continue;
        const std::vector<SymbolicRun> found =
            Read(participant, {kOutputBuffer, wanted.begin}, wanted.end - wanted.begin);
        for (const SymbolicRun& run : found) {
          const SumId expected = wanted.leaf >= 0 ? sums_.Leaf(wanted.leaf) : sum;
          const bool right_sum = wanted.leaf < 0 && goal_.order_free
                                     ? sums_.HasEachOnce(run.sum, summed)
                                     : run.sum == expected;
          const bool right_place = run.shift == wanted.shift + static_cast<int64_t>(wanted.begin);
          if (right_sum && right_place) continue;
          return MakeError(WEFT_INVALID_ARGUMENT,
                           StrCat("unit ", wanted.begin + run.begin, " of participant ",
                                  participant, "'s output is ", sums_.ToString(run.sum),
                                  right_place ? "" : " of another unit", "; it should be ",
                                  sums_.ToString(expected), right_sum ? "'s own" : ""));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  SymbolicBuffer& Buffer(int participant, uint32_t buffer) {
    return memory_[static_cast<size_t>(participant)][buffer];
  }

  std::vector<SymbolicRun> Read(int participant, const UnitPlace& place, uint64_t units) {
    const UnitPlace at = PlaceInMemory(goal_, participant, place, in_place_);
    return Buffer(participant, at.buffer).Read(at.offset, units);
  }

  void FillInputs(int participant) {
    const uint64_t vector_units = goal_.VectorUnits();
    const auto fill = [&](const UnitPlace& place, uint64_t units, int32_t leaf) {
      if (units == 0) return;
      const UnitPlace at = PlaceInMemory(goal_, participant, place, in_place_);
      Buffer(participant, at.buffer).Write(at.offset, {{0, units, sums_.Leaf(leaf), 0}});
    };
    if (!goal_.Reduces()) {
      fill({kInputBuffer, 0}, BufferUnits(goal_, participant, kInputBuffer), participant);
      return;
    }
    for (int i = 0; i < order_.PieceCountOf(participant); ++i) {
      const int piece = order_.PieceOf(participant, i);
      const uint32_t buffer =
          order_.FormOf(piece) == UnitForm::kElement ? kInputBuffer : kPartialsBuffer;
      fill({buffer, vector_units * static_cast<uint64_t>(order_.PlaceOf(participant, i))},
           vector_units, piece);
    }
  }

  // All sources are cut where any of them changes; each part is then one expression.
  absl::StatusOr<std::vector<SymbolicRun>> Reduce(const OpGraph& graph, OpId id) {
    const ScheduleOp& op = graph.ops()[id];
    std::vector<std::vector<SymbolicRun>> sources;
    std::vector<uint64_t> cuts = {0, op.units};
    for (const SourceRun& run : op.from) {
      for (uint32_t i = 0; i < run.count; ++i) {
        sources.push_back(Read(graph.ParticipantOf(id),
                               {run.place.buffer, run.place.offset + i * run.stride}, op.units));
        for (const SymbolicRun& part : sources.back())
          cuts.push_back(part.begin);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<size_t> at(sources.size());
    std::vector<SumId> values(sources.size());
    std::vector<SymbolicRun> result;
    for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
      int64_t shift = 0;
      for (size_t i = 0; i < sources.size(); ++i) {
        if (sources[i][at[i]].end <= cuts[cut]) ++at[i];
        const SymbolicRun& run = sources[i][at[i]];
        if (run.sum == kNoSum) {
          return MakeError(
              WEFT_INVALID_ARGUMENT,
              StrCat(graph.Describe(id), " takes what nobody has written, as source ", i));
        }
        if (i > 0 && run.shift != shift) {
          return MakeError(
              WEFT_INVALID_ARGUMENT,
              StrCat(graph.Describe(id), " adds units of different places, of source ", i));
        }
        shift = run.shift;
        values[i] = run.sum;
      }
      SumId sum = sums_.Tree(values, op.merges);
      if (sum == kNoSum) {
        return MakeError(WEFT_INVALID_ARGUMENT,
                         StrCat(graph.Describe(id), " has merges that are no tree of its ",
                                values.size(), " sources"));
      }
      if (op.stage == SumStage::kFinal) sum = sums_.Final(sum);
      result.push_back({cuts[cut], cuts[cut + 1], sum, shift});
    }
    return result;
  }

  const ScheduleGoal& goal_;
  const ReductionOrder order_;
  const bool in_place_;
  SymbolicSums sums_;
  std::vector<std::vector<SymbolicBuffer>> memory_;
};

}  // namespace

absl::Status ExecuteSymbolically(const CollectiveSchedule& schedule, const OpGraph& graph,
                                 bool in_place) {
  SymbolicMachine machine(schedule, in_place);
  WEFT_RETURN_IF_ERROR(machine.Run(graph));
  return machine.CheckOutputs();
}

}  // namespace weft
