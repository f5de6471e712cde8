// Where rank 0 of a job under PMI-1 (mpiexec of MPICH and others) serves the store: rank 0 opens it
// and passes its unique id to the others through the launcher's key-value space. So several nodes
// need neither MASTER_ADDR nor a port nor a secret file.
//
//   WEFT_ASSIGN_OR_RETURN(ServedId pmi, IdThroughPmi(launch, deadline_ns));
//   pmi.id, and on rank 0 of the first call pmi.host, which serves it
//
// PMI-1 has one conversation per process. The first call has it; later ones return the same id, or
// why there is none.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/served_id.h"

namespace weft {

// True if the ranks have to find each other this way: they may be on several nodes and were not told
// an address and port of rank 0.
bool NeedsPmi(const LaunchEnvironment& launch);

// Collective. Rank 0 listens at `launch.master_host` if it is set, else at its first routable
// address; at `launch.master_port`, 0 being any. Other ranks, and later calls, get no host. TIMEOUT at the deadline, REMOTE_ERROR if the
// launcher hangs up, CORRUPT if it speaks something else.
absl::StatusOr<ServedId> IdThroughPmi(const LaunchEnvironment& launch, int64_t deadline_ns);

}  // namespace weft
