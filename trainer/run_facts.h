// What the ranks of an elastic run know beside weights and optimizer state, so that any of them may
// become rank 0: how the run began, what it trains, where it is written, and what has been
// reported.
//
//   RunFacts facts = {.size_at_first = size};
//   ShareFacts(group, facts);                 // after the group has changed: newcomers know nothing yet
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_RUN_FACTS_H_
#define WEFT_TRAINER_RUN_FACTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/group.h"

#include "trainer/curve.h"
#include "trainer/matmul.h"
#include "trainer/rank_time.h"

namespace weft::trainer {

struct RunFacts {
  size_t size_at_first = 0;  // ranks; 0: this rank has joined a run that it does not know yet
  size_t reported = 0;       // steps
  Precision precision = Precision::kFp32;  // that the run computes in
  uint64_t config_digest = 0;              // of what its ranks have in common
  std::string directory;                   // where rank 0 writes; "" before the run has begun
  std::chrono::steady_clock::time_point training_start;  // the ranks are on one machine
  RankTime time;                                         // since this start of it
  Curve curve;
};

// Gives ranks that know nothing the facts of the lowest rank that does. Throws RunFailure if none
// does: all that had the weights are gone. Collective.
void ShareFacts(weft_group_t group, RunFacts& facts);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_FACTS_H_
