// What processes that make a group say to each other on the connections of attach.h, and how they wait for it.
//
//   WEFT_RETURN_IF_ERROR(SendMessage(socket, AttachMessageOf(request, rank, peer, lifeline.kind, 0), heap, lifeline.fd.get(), deadline_ns));
//   WEFT_RETURN_IF_ERROR(ReceiveMessage(socket, &message, &descriptors, deadline_ns));
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<NodePeer> peer, PeerOfMessage(message, std::move(descriptors)));
//   WEFT_RETURN_IF_ERROR(SendToken(socket, request.group_id));          // all of it is mapped
//
// Nothing that comes is believed before it is checked. A connection that has closed is PEER_LOST; a word of rank 0's that it has given up is its error,
// whatever was waited for.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <sys/un.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/lifeline.h"
#include "base/notice_times.h"
#include "comm/node/attach.h"
#include "comm/node/node_peer.h"
#include "comm/rendezvous/member_watch.h"

namespace weft {

// One message per rank, of fixed size, with the rank's descriptors beside it.
struct AttachMessage {
  uint64_t magic;
  uint64_t group_id;
  int32_t rank;
  int32_t pid;
  uint64_t start_time;
  uint64_t heap_id;
  uint64_t heap_bytes;
  uint64_t heap_id_address;
  uint64_t files_address;
  uint64_t segment_offset;  // rank 0's only
  Lifeline::Kind lifeline_kind;
  char host[64];
};

// What a process sends of itself: where its memory is, and what tells when it has ended.
constexpr size_t kDescriptorCount = 2;

struct AttachDescriptors {
  UniqueFd heap;
  UniqueFd lifeline;
};

AttachMessage AttachMessageOf(const AttachRequest& request, int rank, const NodePeer& peer,
                              Lifeline::Kind lifeline_kind, uint64_t segment_offset);

absl::StatusOr<std::shared_ptr<NodePeer>> PeerOfMessage(const AttachMessage& message,
                                                        AttachDescriptors descriptors);

// Of a socket without a name in a file system.
socklen_t AbstractAddress(const std::string& name, sockaddr_un* address);

// Of the process at the other end, as the kernel tells it: AUTH_FAILED for other users.
absl::Status CheckUser(int socket);

// What is said of a wait that takes long.
struct AttachWait {
  AttachWait(const AttachRequest& request, std::function<std::string()> for_whom);

  void Speak();

  const std::string who;
  NoticeTimes times;
  const std::function<std::string()> whom;
};

// Waits until one of `items` is ready, or the deadline; or until a watched process has ended, if there is a
// `watch`, but what is ready comes first: it was sent before that.
absl::Status PollForAny(std::vector<pollfd>* items, int64_t deadline_ns, MemberWatch* watch,
                        std::string_view what, AttachWait* waiting = nullptr);

// Waits until `fd` can be read or written, or the deadline.
absl::Status PollFor(int fd, short events, int64_t deadline_ns, std::string_view what,
                     AttachWait* waiting = nullptr);

// Before something is looked at again of which nothing tells when it changes.
void PauseBriefly();

// The other end of a connection is gone: who has ended, if somebody has, which the kernel tells a moment
// later; `otherwise` if nobody has.
absl::Status WhyGone(const AttachRequest& request, const absl::Status& otherwise);

absl::Status SendMessage(int socket, const AttachMessage& message, int heap, int lifeline,
                         int64_t deadline_ns);
absl::Status ReceiveMessage(int socket, AttachMessage* message, AttachDescriptors* descriptors,
                            int64_t deadline_ns, AttachWait* waiting = nullptr);

// "I have mapped everything" to rank 0, "enter" from it.
absl::Status SendToken(int socket, uint64_t group_id);
absl::Status ReceiveToken(int socket, uint64_t group_id, int64_t deadline_ns,
                          AttachWait* waiting = nullptr);

// Rank 0's, in place of anything else, when it gives up: only it knows for whom the others wait in vain. Best effort.
void SendGaveUp(int socket, uint64_t group_id, const absl::Status& why);

}  // namespace weft
