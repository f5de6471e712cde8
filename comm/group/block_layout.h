// Putting together the BlockLayout of a call that has more than one count.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

#include "weft/iov.h"

#include "absl/status/status.h"
#include "comm/group/collective.h"

namespace weft {

// What a caller says of one side: a count for each rank and where its block begins, NULL for packed.
struct Blocks {
  const size_t* counts = nullptr;
  const size_t* offsets = nullptr;
};

// Fills *layout and what a vector form's collective has of it (count). `in` and `out` as in
// weft/vector.h; the side that is one block has one count or none. INVALID_ARGUMENT for missing counts
// and sums that do not fit.
absl::Status LayOutBlocks(const Blocks& in, const Blocks& out, int rank, int size,
                          BlockLayout* layout, Collective* collective);

// As LayOutBlocks, for an iov form.
absl::Status LayOutParts(const weft_iov_t* parts, size_t part_count, BlockLayout* layout,
                         Collective* collective);

// Makes elements of a call's counts and offsets, which are of values until then: whoever divides the call later divides it
// between elements. `layout` is the call's, or nullptr. For a reduction by a user's function; of another call nothing
// changes. INVALID_ARGUMENT for what is not a whole number of elements.
absl::Status CountElements(BlockLayout* layout, Collective* call);

}  // namespace weft
