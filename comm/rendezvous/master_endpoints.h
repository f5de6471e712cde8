// Where the store of a job on several nodes listens, by the master's name.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<Endpoint> endpoints,
//                         MasterEndpoints({"MASTER_ADDR", "node1"}, "127.0.1.1", 29500));
//
// Many systems give the machine's own name to a loopback address (Debian: 127.0.1.1 in /etc/hosts). Other nodes resolve that name to
// an address that reaches the machine, and nobody would listen there. So the store then listens at both, and says at once what
// is wrong. Whoever names a loopback address itself, or localhost, has all nodes on one machine, and gets that alone.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/net.h"

namespace weft {

struct MasterName {
  const char* setting;  // "MASTER_ADDR", for messages
  std::string name;
};

// On the machine that serves. `address`: what the name resolves to there. Errors: AddressesForOthers's.
absl::StatusOr<std::vector<Endpoint>> MasterEndpoints(const MasterName& master,
                                                      const std::string& address, uint16_t port);

}  // namespace weft
