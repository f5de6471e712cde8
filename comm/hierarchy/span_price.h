// What a map of ranks to islands costs: sums of floats send each tree piece (comm/schedule/tree_pieces.h) of an island by itself, so an island
// of S bytes of float32 sends (N-1)/N S (1 + pieces) in an all_reduce over N islands, and bf16 pieces of several ranks count double. What adds in
// any order (AddsInAnyOrder, span_schedule.h) is one piece of the type, whatever the map: 2 (N-1)/N S.
//
//   PiecesMax(islands)             // 1: nothing to be gained
//   NestedOrder(islands)           // {0, 2, 1, 3}: who should be rank 0, 1, 2 and 3
//   PriceSentence(islands)         // for the log; "" if no other order of the ranks is cheaper
//
// Thread-safety: pure functions; take time in proportion to the ranks.
#pragma once

#include <string>
#include <vector>

#include "comm/hierarchy/islands.h"

namespace weft {

// Pieces of the island that has most.
int PiecesMax(const Islands& islands);

// The ranks island by island, larger islands first: then each island whose ranks are a power of two is one piece if those before it are
// such, too.
std::vector<int> NestedOrder(const Islands& islands);

// The islands as they are once the ranks have been put in that order: order[r] becomes rank r.
Islands Reordered(const Islands& islands, const std::vector<int>& order);

std::string PriceSentence(const Islands& islands);

}  // namespace weft
