// The ranks that rank 0 has told to enter a group's segment, until each of them has entered or given
// up.
//
//   auto entrants = std::make_shared<Entrants>(segment, peers, std::move(connections));
//   ... rank 0 enters ...
//   WEFT_RETURN_IF_ERROR(entrants->Await(deadline_ns));  // usually all have entered then
//   if (!entrants->Look()) ...                           // later: not all have decided yet
//
// A connection closes when its rank has entered or given up (attach.h), and the segment tells the two
// apart. A rank that has given up is marked kLeft in the segment, so that nobody waits for it. One
// that has been told may read that at any time, minutes after the deadline say, and enter: rank 0
// keeps the segment and the connection until then, also when its own group has long been closed.
//
// Thread-safety: one thread at a time. The segment outlives the object.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "comm/node/attach_connection.h"
#include "comm/node/node_peer.h"
#include "comm/node/segment.h"

namespace weft {

class Entrants {
 public:
  // Both by rank. A rank without a connection could not be told.
  Entrants(const Segment& segment, const std::vector<std::shared_ptr<NodePeer>>& peers,
           std::vector<AttachConnection> connections);

  // Waits until all have decided, at most until a moment (MemberWatch::kEndNs) after the deadline,
  // which may have passed. INTERRUPTED.
  absl::Status Await(int64_t deadline_ns);

  // Marks who has given up; true if all have decided. Who has ended has not given up, and is not
  // marked.
  bool Look();

 private:
  struct Entrant {
    int rank = 0;
    std::shared_ptr<NodePeer> peer;
    AttachConnection connection;
    int64_t closed_ns = 0;  // when its connection was found closed; 0: not yet
  };

  bool HasDecided(Entrant& entrant, int64_t now_ns) const;

  const Segment segment_;
  std::vector<Entrant> undecided_;
};

}  // namespace weft
