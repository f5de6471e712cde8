// A topology from the XML of hwloc 2, as its lstopo writes it ("lstopo machine.xml").
//
//   WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadLstopoXml(text));
//
// Read by weft itself: hwloc 2.9 crashes on one in forty files that were damaged at random. Such a file has no speeds of network devices.
// Thread-safety: pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

inline constexpr size_t kLstopoBytesMax = 16 << 20;

// CORRUPT, with the line, if the text is no XML, declares anything of its own, or is not such a topology; and as CompleteTopology, which it ends with.
absl::StatusOr<Topology> ReadLstopoXml(std::string_view text);

}  // namespace weft
