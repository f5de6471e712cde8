// Everything here is done before ranks have a common memory, with peers that may be slow, dead, somebody else's, or of
// another version, so each step has a deadline and what comes is checked before it is used.
// Here is the part of ranks above 0.
#include "comm/node/attach.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

#include "base/later.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/attach_message.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Rank 0's deadline is the others', too: so long behind it they wait for its word.
constexpr int64_t kGaveUpNs = 500'000'000;

// What a wait for rank 0 ended with: if it has closed the connection, why.
absl::Status FromLeader(const AttachRequest& request, const absl::Status& status) {
  const bool told = FieldsOf(status).rank >= 0;  // by rank 0
  if (ResultOf(status) == WEFT_TIMEOUT && !told) {
    return MakeError(WEFT_TIMEOUT, {.rank = 0}, FromAbsl(status.message()));
  }
  if (ResultOf(status) != WEFT_PEER_LOST && ResultOf(status) != WEFT_REMOTE_ERROR) return status;
  if (told) return WhyGone(request, status);
  return WhyGone(request, MakeError(WEFT_REMOTE_ERROR, {.rank = 0},
                                    "rank 0 gave up making the group; its own error says why"));
}

absl::StatusOr<AttachConnection> ConnectToLeader(const AttachRequest& request) {
  AttachConnection socket(MakeSocket(AF_UNIX, SOCK_SEQPACKET));
  if (!socket.valid()) return RefusedCallError(errno, "socket", "making the node socket");
  sockaddr_un address;
  const socklen_t bytes = AbstractAddress(request.leader_socket, &address);
  while (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      return WhyGone(
          request,
          SystemError(errno, fmt::format("connecting to rank 0's node socket @{}; either rank 0 "
                                         "gave up making the group, and its own error says why, "
                                         "or the two ranks are not in the same network namespace",
                                         request.leader_socket)));
    }
    // The leader's backlog is full.
    if (MonotonicNs() > request.deadline_ns) {
      return MakeError(WEFT_TIMEOUT, "rank 0 did not accept this rank on its node socket");
    }
    PauseBriefly();
  }
  WEFT_RETURN_IF_ERROR(CheckUser(socket.get()));
  return socket;
}

// Connects, says who this is, and takes the first message of the list. Rank 0 drops those that have
// connected and not spoken if there are many, as a rank may be that is slow: it comes again.
absl::StatusOr<AttachConnection> CallLeader(const AttachRequest& request, const NodePeer& self,
                                            AttachMessage* first, AttachDescriptors* descriptors,
                                            AttachWait* waiting) {
  WEFT_ASSIGN_OR_RETURN(const Lifeline lifeline, OwnLifeline());
  while (true) {
    WEFT_ASSIGN_OR_RETURN(AttachConnection socket, ConnectToLeader(request));
    WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
    absl::Status status =
        SendMessage(socket.get(), AttachMessageOf(request, request.rank, self, lifeline.kind, 0),
                    own.fd, lifeline.fd.get(), request.deadline_ns);
    ProcessHeap().Release();
    if (status.ok()) {
      status = ReceiveMessage(socket.get(), first, descriptors,
                              Later(request.deadline_ns, kGaveUpNs), waiting);
    }
    if (status.ok()) return socket;
    status = Annotate(status, "waiting for rank 0's list of heaps: ");
    if (ResultOf(status) != WEFT_PEER_LOST) return FromLeader(request, status);
    if (MonotonicNs() >= request.deadline_ns) return FromLeader(request, status);
    WEFT_RETURN_IF_ERROR(WhyGone(request, absl::OkStatus()));
  }
}

}  // namespace

absl::StatusOr<Attachment> Attach(const AttachRequest& request,
                                  const std::shared_ptr<NodePeer>& self) {
  AttachMessage message{};
  AttachDescriptors descriptors;
  AttachWait waiting(request, [] { return std::string("rank 0 to share the group's memory"); });
  WEFT_ASSIGN_OR_RETURN(AttachConnection socket,
                        CallLeader(request, *self, &message, &descriptors, &waiting));
  Attachment attachment;
  attachment.peers.resize(static_cast<size_t>(request.size));
  for (int expected = 0; expected < request.size; ++expected) {
    if (expected > 0) {
      const absl::Status received = ReceiveMessage(socket.get(), &message, &descriptors,
                                                   Later(request.deadline_ns, kGaveUpNs), &waiting);
      if (!received.ok()) {
        return FromLeader(request, Annotate(received, "waiting for rank 0's list of heaps: "));
      }
    }
    if (message.rank != expected || message.group_id != request.group_id) {
      return MakeError(WEFT_CORRUPT, "rank 0's list of heaps is not of this group");
    }
    if (expected == 0) attachment.segment_offset = message.segment_offset;
    std::shared_ptr<NodePeer>& peer = attachment.peers[static_cast<size_t>(expected)];
    if (expected == request.rank) {
      peer = self;
    } else {
      WEFT_ASSIGN_OR_RETURN(peer, PeerOfMessage(message, std::exchange(descriptors, {})));
    }
  }
  absl::Status told = SendToken(socket.get(), request.group_id);
  if (told.ok()) {
    told = ReceiveToken(socket.get(), request.group_id, Later(request.deadline_ns, kGaveUpNs),
                        &waiting);
  }
  if (!told.ok()) {
    return FromLeader(request, Annotate(told, "waiting for rank 0 to open the group: "));
  }
  attachment.connections.push_back(std::move(socket));
  return attachment;
}

}  // namespace weft
