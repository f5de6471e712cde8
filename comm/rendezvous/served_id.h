// Serving the store of a unique id from this process: an abstract unix socket for its own machine, a
// TCP address for others, a fresh secret for both.
//
//   WEFT_ASSIGN_OR_RETURN(ServedId served, ServeUniqueId({.kind = Endpoint::Kind::kTcp,
//                                                         .host = "10.0.0.1"}, deadline_ns));
//   EncodeUniqueId(served.id)
//
// Thread-safety: any thread. The caller releases the host when it needs it no more (store_host.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/net.h"
#include "comm/rendezvous/store_host.h"
#include "comm/rendezvous/unique_id.h"

namespace weft {

struct ServedId {
  UniqueId id;
  std::shared_ptr<StoreHost> host;
};

// Serves at the unix socket and, unless its host is empty, at `tcp` (port 0: one that is free). Ranks
// prove that they know `secret`; if it is empty, the id's own. SYSTEM_ERROR if the address is in use
// until the deadline.
absl::StatusOr<ServedId> ServeUniqueId(const Endpoint& tcp, const std::string& secret,
                                       int64_t deadline_ns);

// The addresses of the id that are worth trying from this machine, the nearest first; the unix
// socket only where the id was made.
absl::StatusOr<std::vector<Endpoint>> EndpointsOf(const UniqueId& id);

}  // namespace weft
