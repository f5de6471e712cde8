// For whom a rank waits, as its peers read it when they look for the one that holds all of them up.
//
//   ShowLongWait(state, operation);                  // at the looks of a wait that takes long
//   ...
//   for (const int rank : RanksHoldingUp(state, {missing...})) ...   // at a deadline
//
// A rank whose peer has not done its part names that peer; but the peer may itself wait for a third one, and only that
// one is to blame. What a rank says of its wait is checked against what it waits for: a wait that is over, because the
// rank was stopped before it saw that, counts for nothing. A rank that is stopped waits for nobody.
//
// Shown at the looks of a wait only, every few milliseconds: the steady path knows nothing of it. A record needs not be
// cleared: it is of the operation after the last one that the rank has done, or it is old.
//
// There are two words, because there are two readers. This one has the exact value that is waited for, so that who looks for
// the one to blame can see whether it is there; the recorder's says in which phase and round the rank waits, for people.
//
// Thread-safety: shown under the group's step lock, or its issue lock while nothing is queued; read by anybody.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/node/node_state.h"
#include "comm/node/operation.h"

namespace weft {

// The oldest collective of this rank is blocked.
void ShowLongWait(const NodeState& state, const Operation& operation);

// The oldest message of this rank waits for `peer`, or, WEFT_ANY_SOURCE, for anybody; cleared when it has ended.
void ShowLongMessageWait(const NodeState& state, int peer);
void ClearLongMessageWait(const NodeState& state);

// Those for whom this rank waits in the collective that it has shown.
std::vector<int> RanksAwaited(const NodeState& state);

// Those of them that have not come to the collective at all: what they do is elsewhere.
std::vector<int> RanksNotArrived(const NodeState& state);

// Those for whom the oldest message of this rank waits.
std::vector<int> RanksAwaitedInMessages(const NodeState& state);

// Whether there are any.
bool AwaitsRanks(const NodeState& state);
bool AwaitsRanksInMessages(const NodeState& state);

// This rank waits for `first`, these for others, and so on. Returns those among them that wait for nobody: stopped ones
// first, otherwise in the order of ranks. `first` if there are none.
std::vector<int> RanksHoldingUp(const NodeState& state, const std::vector<int>& first);

}  // namespace weft
