// The topology of this machine as hwloc tells it.
//
//   WEFT_ASSIGN_OR_RETURN(const Topology topology, ReadHwlocTopology());
//
// hwloc is opened at run time, where there is one, and only if it is asked for: nothing of weft needs it. It knows quirks of machines that /sys
// alone does not tell, and is a second opinion. It has no speeds of network devices.
// Thread-safety: any thread.
#pragma once

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace weft {

// UNSUPPORTED if weft was built without hwloc's headers, or there is no hwloc of its version 2; SYSTEM_ERROR if it fails; else as
// CompleteTopology. hwloc's own variables (HWLOC_XMLFILE, HWLOC_SYNTHETIC) put another machine in the place of this one, as everywhere;
// hwloc must be able to trust such a file.
absl::StatusOr<Topology> ReadHwlocTopology();

}  // namespace weft
