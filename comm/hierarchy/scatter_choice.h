// Whether a reduce_scatter goes by tree halving (comm/schedule/tree_halving_scatter.cc) or directly. A rank sends as many blocks either way. Directly
// these are N - 1 messages, of elements, in one level; by halving about log2 N messages and levels, of accumulators from the second on, and what
// ranks of an island have in common is added before it leaves the island. So halving is for many ranks and small blocks.
//
//   if (IsScatteredByHalving(call, bytes, islands, links)) ...
//
// By the model of the links (comm/select/link_model.h), whose numbers all ranks have alike. Where candidates are simulated (span_choice.h) this is not asked.
//
// Thread-safety: a pure function; about 10 ns for each rank and level.
#pragma once

#include <cstdint>

#include "comm/group/collective.h"
#include "comm/hierarchy/islands.h"
#include "comm/select/link_model.h"

namespace weft {

// `bytes`: of all blocks. Blocks that differ count as if they did not.
bool IsScatteredByHalving(const Collective& call, uint64_t bytes, const Islands& islands,
                          const LinkModel& links);

}  // namespace weft
