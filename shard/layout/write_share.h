// Which elements of a param a rank writes where several could: of what is kept more than once, each rank takes a part.
//
//   const OwnedElements share = WriteShare(layout, layout.places[param], spec.count);
//
// The shares of all ranks cover each param exactly once, and each lies within whatever of the param the rank keeps, params
// and optimizer state alike, however these rest: the cuts are those that every extent has in every preset, and what replicas
// of a rank keep is cut once more between them.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

#include "shard/layout/layout.h"

namespace weft {

// Ranks that keep the same of an extent, where it is cut, and which of them this one is: those at the same place of their
// replicas.
Member ReplicaOf(const Layout& layout, const Placement& placement);

// This rank's share of the param of `count` elements at `place`; begin is 0 if it is empty.
OwnedElements WriteShare(const Layout& layout, const Place& place, size_t count);

}  // namespace weft
