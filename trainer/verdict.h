// What rank 0 alone finds out, and all ranks act on: the directory of a run is looked at and written by one rank, but if it will not do,
// all are to end with the same code, and with the reason.
//
//   DecideOnFirst(group, [&] { report.CheckWritten(); });                          // what rank 0 throws, all ranks throw
//   const std::string directory = HearOfFirst(group, [&] { return Claim(); });
//
// Collective over the ranks of the group. Thread-safety: pure but for the group.
#ifndef WEFT_TRAINER_VERDICT_H_
#define WEFT_TRAINER_VERDICT_H_

#include <functional>
#include <string>

#include "weft/group.h"

namespace weft::trainer {

// Calls `decide` on rank 0, and returns once the others know that it went well. What it throws, all ranks throw, with its sentence.
void DecideOnFirst(weft_group_t group, const std::function<void()>& decide);

// The same, and all ranks return what it returns, up to 8 KiB of text.
std::string HearOfFirst(weft_group_t group, const std::function<std::string()>& decide);

// Whether all ranks say so.
bool AllSay(weft_group_t group, bool yes);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_VERDICT_H_
