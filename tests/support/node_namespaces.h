// Which network, host name and user a node of a Netlab is, as descriptors of the namespaces of a process that holds them.
//
//   absl::StatusOr<NodeNamespaces> node = NodeNamespaces::Of(holder);
//   if (fork() == 0 && node->Enter()) execvp(...);
//
// Thread-safety: a value. A process that enters must have one thread, and cannot go back.
#pragma once

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft::test {

class NodeNamespaces {
 public:
  NodeNamespaces() = default;

  // UNSUPPORTED if the process is gone, or is not this user's to look at.
  static absl::StatusOr<NodeNamespaces> Of(pid_t holder);

  // This process is on the node from here on, and what it starts. False, with errno, if it may not; it is then nowhere in particular.
  bool Enter() const;

 private:
  UniqueFd user_;  // not valid: that of this process
  UniqueFd network_;
  UniqueFd name_;
};

}  // namespace weft::test
