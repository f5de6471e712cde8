// From an environment, an id or nothing to a connected store and a place in the world.
//
//   WEFT_ASSIGN_OR_RETURN(Rendezvous r, RendezvousFromEnvironment(deadline_ns));
//   r.rank, r.size, *r.store
//
// Thread-safety: each function from one thread at a time. A Rendezvous owns its store; if this
// process hosts the store's server, the server lives on a thread of the process until every rank
// has left it.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/store.h"

#include "absl/status/statusor.h"
#include "comm/rendezvous/store.h"

namespace weft {

struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::unique_ptr<Store> store;  // nullptr for a world of one
};

// weftrun, torchrun, Slurm, PMI-1, Open MPI, or none of them (a world of one).
absl::StatusOr<Rendezvous> RendezvousFromEnvironment(int64_t deadline_ns);

// Makes an id and serves it from this process.
absl::StatusOr<weft_unique_id_t> CreateUniqueId();
absl::StatusOr<Rendezvous> RendezvousFromId(const weft_unique_id_t& id, int size, int rank,
                                            int64_t deadline_ns);

}  // namespace weft
