// The proof that a schedule does what it promises, whatever the order in which messages arrive and ops end.
//
//   absl::StatusOr<ScheduleProof> proof = VerifySchedule(schedule);
//   if (!proof.ok()) ...       // which op of which participant breaks which rule
//
// What is proved, for the schedule's participants and count, under the rules S1 to S6 of schedule.h:
//  V1 Every op is well formed and stays within its buffers; every message has its two halves.
//  V2 Nothing waits in a circle, even if every send waits for its receive and no more than window() ops are under way.
//  V3 Two ops of a participant that touch the same units, one of them writing, are ordered by `after` and messages alone. So all legal
//     orders of execution have the same results, and it is enough to look at one.
//  V4 Carried out on expressions in place of numbers, no op reads what was not written, and every unit of every output is what the goal
//     says: for sums in order the canonical tree itself, rounded once; for others each contribution exactly once; for the rest the right
//     contribution's right unit. In a barrier nobody ends before everybody has come.
//  V5 Every participant sends as many units as the algorithm's theory says (SentBy).
// If the schedule can be used in place, V3 and V4 are proved again with input and output in the same memory.
//
// It does not prove anything for another count or number of participants: those are another schedule.
// Cost: some 2 us per op, and memory for the ops of all participants; V3 is quadratic in the ops of one participant.
// Thread-safety: pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/schedule/schedule.h"

namespace weft {

struct ScheduleProof {
  uint64_t ops = 0;      // of all participants
  uint64_t ops_max = 0;  // of the one that has most
  uint64_t messages = 0;
  int levels = 0;  // messages on the longest chain of ops that depend on each other
  bool in_place = false;
  std::vector<SentUnits> sent;  // by participant
};

// INVALID_ARGUMENT with the rule that is broken, participant and op.
absl::StatusOr<ScheduleProof> VerifySchedule(const CollectiveSchedule& schedule);

}  // namespace weft
