// A topology as text (docs/formats/topology.md) and back.
//
//   const std::string text = TopologyAsJson(topology);
//   WEFT_ASSIGN_OR_RETURN(const Topology read, TopologyFromJson(text));     // read == topology
//
// Apart from the topology, because the library behind it takes long to compile.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

inline constexpr int kTopologyFormatVersion = 1;
inline constexpr size_t kTopologyTextBytesMax = 4 << 20;

// One JSON document, a line per object, so that line tools can compare two of them.
std::string TopologyAsJson(const Topology& topology);

// CORRUPT with a sentence if the text is too long, no JSON, of another format version, lacks a member or has one that is not of its type
// or out of range, and as CompleteTopology, which it ends with. Members that are not known are ignored.
absl::StatusOr<Topology> TopologyFromJson(std::string_view text);

}  // namespace weft
