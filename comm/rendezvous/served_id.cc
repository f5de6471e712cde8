#include "comm/rendezvous/served_id.h"

#include <string>
#include <utility>

#include "base/interfaces.h"
#include "base/keyed_hash.h"
#include "base/proc.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

uint64_t BootHash() {
  const std::string hash = KeyedHash("weft boot id", SystemSeams().proc->Self().boot_id);
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i)
    value = value << 8 | static_cast<uint8_t>(hash[i]);
  return value;
}

}  // namespace

absl::StatusOr<ServedId> ServeUniqueId(const Endpoint& tcp, const std::string& secret,
                                       int64_t deadline_ns) {
  ServedId served;
  UniqueId& id = served.id;
  id.secret.resize(kKeyBytes);
  std::string name(kNameHashBytes, '\0');
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(id.secret.data(), id.secret.size()));
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(name.data(), name.size()));
  id.boot_hash = BootHash();
  name = HashName("weft unique id", name, kNameHashBytes);
  std::vector<Endpoint> endpoints = {
      {.kind = Endpoint::Kind::kUnix, .host = StrCat("weft-", name)}};
  if (!tcp.host.empty()) endpoints.push_back(tcp);
  const StoreServerOptions options{.secret = secret.empty() ? id.secret : secret};
  WEFT_ASSIGN_OR_RETURN(served.host, StoreHost::Start(options, &endpoints, deadline_ns));
  id.unix_socket = endpoints[0];
  id.tcp.kind = Endpoint::Kind::kTcp;
  if (endpoints.size() > 1) id.tcp = endpoints[1];
  return served;
}

absl::StatusOr<std::vector<Endpoint>> EndpointsOf(const UniqueId& id) {
  std::vector<Endpoint> endpoints;
  if (BootHash() == id.boot_hash) endpoints.push_back(id.unix_socket);
  if (!id.tcp.host.empty()) {
    endpoints.push_back(id.tcp);
    // The interface in a link-local address is one of the machine that made the id.
    if (id.tcp.host.find('%') != std::string::npos) {
      WEFT_ASSIGN_OR_RETURN(const OwnAddresses own, AddressesForOthers());
      if (!own.rails.empty()) endpoints.back().host = OnOwnLink(id.tcp.host, own.rails.front());
    }
  }
  if (endpoints.empty()) {
    return MakeError(WEFT_UNREACHABLE,
                     "the store is served on another machine, which had no address that others "
                     "can reach");
  }
  return endpoints;
}

}  // namespace weft
