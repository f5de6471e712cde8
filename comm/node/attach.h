// How the processes of a group come to have each other's heaps mapped.
//
// Every rank connects to rank 0's abstract unix socket and sends its identity, its heap's descriptor and its lifeline
// (base/lifeline.h); rank 0 checks that the caller has the same user and belongs to the group, then sends
// everybody all identities and descriptors, and where it put the group's segment. Who has mapped
// everything says so; when all have, rank 0 tells them to enter. Descriptors are closed when mapped.
// Nothing has a name in a file system.
//
// Until it is told to enter, a rank does not touch the segment, so rank 0 may give up and free it. From
// then on the connection is the proof: a rank hangs up when it has entered (kJoined) or given up, and
// rank 0 tells the two apart (entrants.h). Whoever fails hangs up, so the others need not wait
// for their deadline. Rank 0 watches the processes of all: when one ends it gives up, and the others, whose
// connections close, look who has ended (member_watch.h).
//
// Rank 0 sends its lists to some ranks at a time and waits until they have mapped what is in them, because
// the system bounds the descriptors that a user has under way. A rank that comes late, or that rank 0
// has dropped because it was slow to say who it is, may come again until rank 0 has the last one.
//
// Thread-safety: none; used once per group. Deadlines are on MonotonicNs's clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "comm/node/attach_connection.h"
#include "comm/node/node_peer.h"
#include "comm/rendezvous/member_watch.h"

namespace weft {

struct AttachRequest {
  uint64_t group_id = 0;
  std::string group_name;  // for messages
  int rank = 0;
  int size = 1;
  std::string leader_socket;  // abstract name, without the leading NUL
  int64_t deadline_ns = 0;
  MemberWatch* watch = nullptr;  // of all members
};

struct Attachment {
  std::vector<std::shared_ptr<NodePeer>> peers;  // by rank
  uint64_t segment_offset = 0;                   // in rank 0's heap
  // Rank 0's by rank, invalid where there is none; the others' to rank 0, which they keep until they
  // are kJoined.
  std::vector<AttachConnection> connections;
};

// Rank 0 listens before it tells anybody the name.
absl::StatusOr<UniqueFd> ListenForAttach(const std::string& socket_name);

// Rank 0: serves all others. When it returns Ok they may be in the segment.
absl::StatusOr<Attachment> ServeAttach(const AttachRequest& request, const UniqueFd& listener,
                                       std::shared_ptr<NodePeer> self, uint64_t segment_offset);
// The others. After Ok nothing may fail before the rank is kJoined.
absl::StatusOr<Attachment> Attach(const AttachRequest& request,
                                  const std::shared_ptr<NodePeer>& self);

}  // namespace weft
