// What the 128 bytes of a weft_unique_id_t hold: the secret of a rendezvous and where it is served.
//
// Thread-safety: pure functions. The bytes are a secret: never print them.
#pragma once

#include <cstdint>
#include <string>

#include "weft/store.h"

#include "absl/status/statusor.h"
#include "base/net.h"

namespace weft {

struct UniqueId {
  std::string secret;    // 32 bytes
  Endpoint unix_socket;  // on the machine that made the id
  Endpoint tcp;          // from other machines; host "" if it has no routable address
  uint64_t boot_hash =
      0;  // of the machine's boot id: tells whether the unix socket is worth trying
};

absl::StatusOr<weft_unique_id_t> EncodeUniqueId(const UniqueId& id);
// INVALID_ARGUMENT if the bytes were not made by EncodeUniqueId of this version, or were changed.
absl::StatusOr<UniqueId> DecodeUniqueId(const weft_unique_id_t& id);

}  // namespace weft
