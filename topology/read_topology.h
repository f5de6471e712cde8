// The topology that everything in weft goes by: this machine's, or what WEFT_TOPOLOGY_FILE describes in its place.
//
//   WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadTopology());
//
// Thread-safety: any thread. Takes some 10 ms on machines of hundreds of CPUs: whoever needs it often keeps it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

// Of WEFT_TOPOLOGY_FILE, if it is set; else ReadSysfsTopology.
absl::StatusOr<Topology> ReadTopology();

// A file of docs/formats/topology.md. SYSTEM_ERROR if it cannot be read, else TopologyFromJson's errors, with the path.
absl::StatusOr<Topology> ReadTopologyFile(const std::string& path);

}  // namespace weft
