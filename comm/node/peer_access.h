// Waiting until a peer has stopped reading or writing this rank's memory.
//
//   const std::string quarantined = Quiesce(access, buffers, policy, patience);
//
// Peers reach for symmetric buffers directly. When a group ends, one of them may be in the middle of a copy and not have
// seen the abort yet, and the caller of the failed operation is about to get its buffers back. A rank says so before it
// looks at the abort word; the rank whose operation fails has written the abort word before it waits here (seq_cst): so
// either the peer sees the abort, or this rank sees the peer's access.
//
// Thread-safety: any thread; a Deadline is its caller's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/wait.h"
#include "comm/node/node_peer.h"

namespace weft {

// How long to wait for peers when a group has ended, for all of them together: a copy takes a moment, and who does not end
// it in this time was stopped.
constexpr int64_t kQuiesceNs = 1'000'000'000;

struct PeerAccess {
  int peer;
  NodePeer& process;
  const std::atomic<uint32_t>& under_way;  // 0 while the peer does not touch memory of others
  EventCount& changed;                     // notified when it stops
};

// "" if the peer has stopped, or its process has ended. Else, at the deadline, `buffers` are in quarantine, as far as they
// lie in this process's heap, and the text is the end of a sentence that says so.
std::string Quiesce(const PeerAccess& access, std::span<const void* const> buffers,
                    const WaitPolicy& policy, Deadline& patience);

}  // namespace weft
