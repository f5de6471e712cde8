// WEFT_FAKE_NODES: nodes that the ranks of one machine play, so that what goes between nodes can be tried on it.
//
//   FakeNodeOf("2", 5, 8)         // 1: two nodes of four ranks; a group of one rank has one
//   FakeNodeOf("3,1", ...)        // INVALID_ARGUMENT: neither a number of nodes nor a node for each rank
//   FakeNodeOf("0,0,0,1", 3, 4)   // 1
//   FakeNodeOf("", 3, 4)          // -1: none
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// The node of rank `rank` of `size`. INVALID_ARGUMENT if `nodes` means nothing for so many ranks.
absl::StatusOr<int> FakeNodeOf(std::string_view nodes, int rank, int size);

}  // namespace weft
