// The topology that Linux tells in /sys.
//
//   WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadSysfsTopology(""));
//
// Read are CPUs that are online, network devices that hang on a bus, and of PCI the paths to these. What is missing or makes no sense is
// left out; CPUs that two objects of a kind claim belong to the first.
// Thread-safety: pure functions over the file system.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

// From the files below `root` ("" is the machine's own). UNSUPPORTED if they do not even name the CPUs; else as
// CompleteTopology, if what the firmware says contradicts itself.
absl::StatusOr<Topology> ReadSysfsTopology(const std::string& root);

}  // namespace weft
