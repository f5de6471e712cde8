// Which memory the ops of a schedule touch, with input and output apart or in the same memory: a step of the verifier.
//
//   std::vector<UnitAccess> accesses;
//   if (!AppendAccesses(goal, participant, op, id, in_place, &accesses)) ...   // it writes over a part of what it reads
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule/schedule.h"

namespace weft {

struct UnitAccess {
  uint32_t op = 0;
  uint32_t buffer = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writes = false;
};

// Where `place` is. In place, the smaller of input and output lies in the larger one, which gives the memory its name.
UnitPlace PlaceInMemory(const ScheduleGoal& goal, int participant, const UnitPlace& place,
                        bool in_place);

// Appends what `op` touches, nothing for an op without units. False if it writes over a part of one of its sources, or in between several
// of them, instead of exactly where one lies (S6).
bool AppendAccesses(const ScheduleGoal& goal, int participant, const ScheduleOp& op, uint32_t id,
                    bool in_place, std::vector<UnitAccess>* accesses);

}  // namespace weft
