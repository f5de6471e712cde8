#include "comm/rendezvous/master_endpoints.h"

#include "base/interfaces.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<std::vector<Endpoint>> MasterEndpoints(const MasterName& master,
                                                      const std::string& address, uint16_t port) {
  std::vector<Endpoint> endpoints = {{.kind = Endpoint::Kind::kTcp, .host = address, .port = port}};
  if (!IsLoopback(address) || master.name == address || master.name == "localhost")
    return endpoints;
  WEFT_ASSIGN_OR_RETURN(const OwnAddresses all, AddressesForOthers());
  const std::string own = all.rails.empty() ? "" : all.rails.front();
  const std::string found = StrCat(master.setting, "=", master.name, " is the loopback address ",
                                   address, " on this machine, which other nodes cannot reach");
  if (own.empty() || IsLoopback(own)) {
    LogWarn(found, ", and there is no other one here; set ", master.setting,
            " to an address of this machine that they reach");
    return endpoints;
  }
  endpoints.push_back({.kind = Endpoint::Kind::kTcp, .host = own, .port = port});
  LogWarn(found, "; the store listens at ", own, " as well, which is right if they find ",
          master.name, " there; else set ", master.setting,
          " to an address of this machine that they reach, or give its name to that address in "
          "/etc/hosts");
  return endpoints;
}

}  // namespace weft
