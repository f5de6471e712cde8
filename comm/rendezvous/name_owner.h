// Who holds an abstract socket name that this process could not bind.
//
//   NameOwner owner(endpoint);
//   while (!bound) { WEFT_RETURN_IF_ERROR(owner.Look()); pause, and try again }
//
// Names that follow from user and job can be known to others, and whoever comes first has one: a job
// before this one that has not quite ended, which is worth waiting for, or another user, which is not.
//
// Thread-safety: owned by one thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/net.h"

namespace weft {

class NameOwner {
 public:
  explicit NameOwner(const Endpoint& endpoint);

  // Ok if it may be free again soon; says who is waited for after a second. AUTH_FAILED with its
  // process and user if the name is another user's. SYSTEM_ERROR if a process that accepts no
  // connection, so that the kernel does not tell who it is, has held it for two seconds.
  absl::Status Look();

 private:
  absl::Status Foreign(const PeerIdentity& owner) const;

  const Endpoint endpoint_;
  const int64_t start_ns_;
  bool said_ = false;
};

}  // namespace weft
