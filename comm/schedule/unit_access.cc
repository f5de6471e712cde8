#include "comm/schedule/unit_access.h"

namespace weft {

UnitPlace PlaceInMemory(const ScheduleGoal& goal, int participant, const UnitPlace& place,
                        bool in_place) {
  if (!in_place || (place.buffer != kInputBuffer && place.buffer != kOutputBuffer)) return place;
  const uint64_t own_block = goal.BlockBegin(participant);
  const bool input = place.buffer == kInputBuffer;
  switch (goal.kind) {
    case GoalKind::kAllGather:
      return {kOutputBuffer, place.offset + (input ? own_block : 0)};
    case GoalKind::kGather:
      return participant == goal.root
                 ? UnitPlace{kOutputBuffer, place.offset + (input ? own_block : 0)}
                 : place;
    case GoalKind::kReduceScatter:
      return {kInputBuffer, place.offset + (input ? 0 : own_block)};
    case GoalKind::kScatter:
      return participant == goal.root
                 ? UnitPlace{kInputBuffer, place.offset + (input ? 0 : own_block)}
                 : place;
    case GoalKind::kReduce:
      return participant == goal.root ? UnitPlace{kOutputBuffer, place.offset} : place;
    case GoalKind::kExscan:
      return participant != 0 ? UnitPlace{kOutputBuffer, place.offset} : place;
    default:
      return {kOutputBuffer, place.offset};
  }
}

bool AppendAccesses(const ScheduleGoal& goal, int participant, const ScheduleOp& op, uint32_t id,
                    bool in_place, std::vector<UnitAccess>* accesses) {
  if (op.units == 0) return true;
  const bool writes = op.action != OpAction::kSend;
  const UnitPlace to = PlaceInMemory(goal, participant, op.to, in_place);
  if (op.action == OpAction::kCopy &&
      PlaceInMemory(goal, participant, op.from[0].place, in_place) == to) {
    return true;
  }
  if (writes) accesses->push_back({id, to.buffer, to.offset, to.offset + op.units, true});
  for (const SourceRun& run : op.from) {
    for (uint32_t i = 0; i < run.count; ++i) {
      const UnitPlace at = {run.place.buffer, run.place.offset + i * run.stride};
      const UnitPlace from = PlaceInMemory(goal, participant, at, in_place);
      const bool overlaps = writes && from.buffer == to.buffer &&
                            from.offset < to.offset + op.units &&
                            to.offset < from.offset + op.units;
      if (overlaps && from.offset != to.offset) return false;
      accesses->push_back({id, from.buffer, from.offset, from.offset + op.units, false});
    }
  }
  return true;
}

}  // namespace weft
