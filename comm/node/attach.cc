#include "comm/node/attach.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

constexpr uint64_t kAttachMagic = 0x33'68'63'74'74'61'66'77ULL;
constexpr int64_t kConnectPauseNs = 2'000'000;

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
  uint64_t segment_offset;  // rank 0's only
  Lifeline::Kind lifeline_kind;
  char host[64];
};

// Of a process: where its memory is, and what tells when it has ended.
constexpr size_t kDescriptorCount = 2;

struct Descriptors {
  UniqueFd heap;
  UniqueFd lifeline;
};

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

// Waits until `fd` can be read or written, or the deadline.
absl::Status PollFor(int fd, short events, int64_t deadline_ns, std::string_view what) {
  while (true) {
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (left_ns <= 0) return MakeError(WEFT_TIMEOUT, fmt::format("{}: the deadline passed", what));
    pollfd item{fd, events, 0};
    const int ready =
        poll(&item, 1, static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 1000)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError(errno, what);
  }
}

absl::Status SendMessage(int socket, const AttachMessage& message, int heap, int lifeline,
                         int64_t deadline_ns) {
  iovec data{const_cast<AttachMessage*>(&message), sizeof(message)};
  const int descriptors[kDescriptorCount] = {heap, lifeline};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(descriptors))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(descriptors));
  std::memcpy(CMSG_DATA(rights), descriptors, sizeof(descriptors));
  while (true) {
    const ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(sizeof(message))) return absl::OkStatus();
    if (sent >= 0) return MakeError(WEFT_INTERNAL_ERROR, "sending a heap: a message was cut");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SystemError(errno, "sending a heap to a peer");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLOUT, deadline_ns, "sending a heap to a peer"));
  }
}

// What came with a message, each of which is now this process's to close. Whoever sends fewer or more than were asked for
// sends nothing of use.
Descriptors TakeDescriptors(msghdr& header) {
  std::vector<UniqueFd> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + at, sizeof(number));
      taken.emplace_back(number);
    }
  }
  if (taken.size() != kDescriptorCount) return {};
  return {std::move(taken[0]), std::move(taken[1])};
}

absl::Status ReceiveMessage(int socket, AttachMessage* message, Descriptors* descriptors,
                            int64_t deadline_ns) {
  iovec data{message, sizeof(*message)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorCount * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t received = -1;
  while ((received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SystemError(errno, "receiving a peer's heap");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLIN, deadline_ns, "receiving a peer's heap"));
  }
  *descriptors = TakeDescriptors(header);
  if (received == 0) return MakeError(WEFT_PEER_LOST, "the peer closed the connection");
  if (received != static_cast<ssize_t>(sizeof(*message)) || (header.msg_flags & MSG_CTRUNC) != 0 ||
      !descriptors->heap.valid() || message->magic != kAttachMagic) {
    return MakeError(WEFT_CORRUPT, "what came is not a heap of this version of weft");
  }
  message->host[sizeof(message->host) - 1] = 0;
  return absl::OkStatus();
}

// "I have mapped everything" to rank 0, "enter" from it.
absl::Status SendToken(int socket, uint64_t group_id) {
  while (send(socket, &group_id, sizeof(group_id), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    // One small message per direction always fits, so EAGAIN is an error too.
    if (errno != EINTR) return SystemError(errno, "sending to a peer");
  }
  return absl::OkStatus();
}

absl::Status ReceiveToken(int socket, uint64_t group_id, int64_t deadline_ns) {
  uint64_t found = 0;
  ssize_t received = -1;
  while ((received = recv(socket, &found, sizeof(found), MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SystemError(errno, "receiving from a peer");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLIN, deadline_ns, "waiting for a peer"));
  }
  if (received == 0) {
    return MakeError(WEFT_REMOTE_ERROR, "it gave up making the group; its own error says why");
  }
  if (received == static_cast<ssize_t>(sizeof(found)) && found == group_id) return absl::OkStatus();
  return MakeError(WEFT_CORRUPT, "it sent what is not of this group");
}

AttachMessage MessageOf(const AttachRequest& request, int rank, const NodePeer& peer,
                        Lifeline::Kind lifeline_kind, uint64_t segment_offset) {
  AttachMessage message{};
  const NodePeer::Identity& identity = peer.identity();
  message.magic = kAttachMagic;
  message.group_id = request.group_id;
  message.rank = rank;
  message.pid = identity.pid;
  message.start_time = identity.start_time;
  message.heap_id = identity.heap_id;
  message.heap_bytes = identity.heap_bytes;
  message.heap_id_address = identity.heap_id_address;
  message.segment_offset = segment_offset;
  message.lifeline_kind = lifeline_kind;
  std::strncpy(message.host, identity.host.c_str(), sizeof(message.host) - 1);
  return message;
}

absl::StatusOr<std::shared_ptr<NodePeer>> PeerOf(const AttachMessage& message,
                                                 Descriptors descriptors) {
  return NodePeer::Open({message.pid, message.start_time, message.heap_id, message.heap_bytes,
                         message.host, message.heap_id_address},
                        std::move(descriptors.heap),
                        {std::move(descriptors.lifeline), message.lifeline_kind});
}

// The process at the other end, as the kernel tells it; refuses other users.
absl::Status CheckUser(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return SystemError(errno, "reading a peer's user");
  }
  if (credentials.uid == geteuid()) return absl::OkStatus();
  return MakeError(WEFT_AUTH_FAILED,
                   fmt::format("process {} of user {} tried to join; it must be the user {} that "
                               "runs this rank",
                               credentials.pid, credentials.uid, geteuid()));
}

// Who has connected to rank 0; by rank.
struct Callers {
  explicit Callers(size_t size) : sockets(size), descriptors(size), messages(size) {}

  std::vector<UniqueFd> sockets;
  std::vector<Descriptors> descriptors;  // but for rank 0's heap
  std::vector<AttachMessage> messages;
};

absl::Status Missing(const absl::Status& cause, const Callers& callers) {
  std::vector<size_t> missing;
  for (size_t rank = 1; rank < callers.sockets.size(); ++rank) {
    if (!callers.sockets[rank].valid()) missing.push_back(rank);
  }
  return Annotate(cause, fmt::format("rank{} {} did not exchange memory with rank 0: ",
                                     missing.size() == 1 ? "" : "s", fmt::join(missing, ", ")));
}

absl::Status AcceptAll(const AttachRequest& request, const UniqueFd& listener, Callers* callers) {
  for (size_t joined = 1; joined < callers->sockets.size();) {
    const absl::Status ready =
        PollFor(listener.get(), POLLIN, request.deadline_ns, "waiting for the node's other ranks");
    if (!ready.ok()) return Missing(ready, *callers);
    UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) continue;
      return Missing(SystemError(errno, "accepting a connection"), *callers);
    }
    AttachMessage message{};
    Descriptors descriptors;
    absl::Status received = CheckUser(socket.get());
    // A stranger that connects and says nothing is given a second, not the whole deadline.
    const int64_t patience_ns = std::min(request.deadline_ns, MonotonicNs() + 1'000'000'000);
    if (received.ok()) received = ReceiveMessage(socket.get(), &message, &descriptors, patience_ns);
    const bool mine = received.ok() && message.group_id == request.group_id && message.rank > 0 &&
                      message.rank < request.size &&
                      !callers->sockets[static_cast<size_t>(message.rank)].valid();
    if (!mine) {
      LogWarn("refused a connection to the node socket: ",
              received.ok() ? "it is not of this group" : std::string(received.message()));
      continue;
    }
    const auto rank = static_cast<size_t>(message.rank);
    callers->sockets[rank] = std::move(socket);
    callers->descriptors[rank] = std::move(descriptors);
    callers->messages[rank] = message;
    ++joined;
  }
  return absl::OkStatus();
}

absl::Status SendLists(const AttachRequest& request, const Callers& callers) {
  WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
  absl::Status sent;
  const size_t size = callers.sockets.size();
  for (size_t to = 1; to < size && sent.ok(); ++to) {
    for (size_t rank = 0; rank < size && sent.ok(); ++rank) {
      const Descriptors& descriptors = callers.descriptors[rank];
      sent = SendMessage(callers.sockets[to].get(), callers.messages[rank],
                         rank == 0 ? own.fd : descriptors.heap.get(), descriptors.lifeline.get(),
                         request.deadline_ns);
    }
  }
  ProcessHeap().Release();
  return sent;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForAttach(const std::string& socket_name) {
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return SystemError(errno, "making the node socket");
  sockaddr_un address;
  const socklen_t bytes = AbstractAddress(socket_name, &address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listener.get(), 128) != 0) {
    return SystemError(errno, fmt::format("listening on the node socket @{}", socket_name));
  }
  return listener;
}

absl::StatusOr<Attachment> ServeAttach(const AttachRequest& request, const UniqueFd& listener,
                                       std::shared_ptr<NodePeer> self, uint64_t segment_offset) {
  const auto size = static_cast<size_t>(request.size);
  Callers callers(size);
  WEFT_ASSIGN_OR_RETURN(Lifeline lifeline, OwnLifeline());
  callers.messages[0] = MessageOf(request, 0, *self, lifeline.kind, segment_offset);
  callers.descriptors[0].lifeline = std::move(lifeline.fd);
  WEFT_RETURN_IF_ERROR(AcceptAll(request, listener, &callers));
  WEFT_RETURN_IF_ERROR(SendLists(request, callers));
  Attachment attachment;
  attachment.segment_offset = segment_offset;
  attachment.peers.push_back(std::move(self));
  for (size_t rank = 1; rank < size; ++rank) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<NodePeer> peer,
                          PeerOf(callers.messages[rank], std::move(callers.descriptors[rank])));
    attachment.peers.push_back(std::move(peer));
  }
  for (size_t rank = 1; rank < size; ++rank) {
    const absl::Status ready =
        ReceiveToken(callers.sockets[rank].get(), request.group_id, request.deadline_ns);
    if (!ready.ok()) {
      return MakeError(ResultOf(ready), {.rank = static_cast<int32_t>(rank)},
                       fmt::format("rank {} did not map the group's memory: {}", rank,
                                   std::string(ready.message())));
    }
  }
  for (size_t rank = 1; rank < size; ++rank) {
    const absl::Status told = SendToken(callers.sockets[rank].get(), request.group_id);
    if (told.ok()) continue;
    // It will not enter. The others may have, so this rank must, too.
    LogWarn("rank ", rank, " could not be told to enter the group: ", std::string(told.message()));
    callers.sockets[rank].Reset();
  }
  attachment.connections = std::move(callers.sockets);
  return attachment;
}

void SayEntered(Attachment* attachment) {
  // A child that another thread has forked may hold copies: closing alone would not be seen.
  for (const UniqueFd& connection : attachment->connections) {
    if (connection.valid()) shutdown(connection.get(), SHUT_RDWR);
  }
  attachment->connections.clear();
}

void AwaitEntry(const Segment& segment, const AttachRequest& request,
                const Attachment& attachment) {
  for (int rank = 1; rank < request.size; ++rank) {
    const UniqueFd& connection = attachment.connections[static_cast<size_t>(rank)];
    // Nothing more comes on it: it becomes readable when the rank closes it.
    if (connection.valid() &&
        !PollFor(connection.get(), POLLIN, request.deadline_ns, "waiting for a rank").ok()) {
      continue;
    }
    RankState absent = RankState::kAbsent;
    segment.control(rank).state.compare_exchange_strong(absent, RankState::kLeft,
                                                        std::memory_order_seq_cst);
  }
}

absl::StatusOr<Attachment> Attach(const AttachRequest& request,
                                  const std::shared_ptr<NodePeer>& self) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return SystemError(errno, "making the node socket");
  sockaddr_un address;
  const socklen_t bytes = AbstractAddress(request.leader_socket, &address);
  while (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      return SystemError(errno,
                         fmt::format("connecting to rank 0's node socket @{}; are both ranks "
                                     "in the same network namespace?",
                                     request.leader_socket));
    }
    // The leader's backlog is full.
    if (MonotonicNs() > request.deadline_ns) {
      return MakeError(WEFT_TIMEOUT, "rank 0 did not accept this rank on its node socket");
    }
    const timespec pause{0, kConnectPauseNs};
    nanosleep(&pause, nullptr);
  }
  WEFT_RETURN_IF_ERROR(CheckUser(socket.get()));
  WEFT_ASSIGN_OR_RETURN(const Lifeline lifeline, OwnLifeline());
  WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
  const absl::Status sent =
      SendMessage(socket.get(), MessageOf(request, request.rank, *self, lifeline.kind, 0), own.fd,
                  lifeline.fd.get(), request.deadline_ns);
  ProcessHeap().Release();
  WEFT_RETURN_IF_ERROR(sent);
  Attachment attachment;
  attachment.peers.resize(static_cast<size_t>(request.size));
  for (int expected = 0; expected < request.size; ++expected) {
    AttachMessage message{};
    Descriptors descriptors;
    const absl::Status received =
        ReceiveMessage(socket.get(), &message, &descriptors, request.deadline_ns);
    if (!received.ok()) return Annotate(received, "waiting for rank 0's list of heaps: ");
    if (message.rank != expected || message.group_id != request.group_id) {
      return MakeError(WEFT_CORRUPT, "rank 0's list of heaps is not of this group");
    }
    if (expected == 0) attachment.segment_offset = message.segment_offset;
    std::shared_ptr<NodePeer>& peer = attachment.peers[static_cast<size_t>(expected)];
    if (expected == request.rank) {
      peer = self;
    } else {
      WEFT_ASSIGN_OR_RETURN(peer, PeerOf(message, std::move(descriptors)));
    }
  }
  WEFT_RETURN_IF_ERROR(SendToken(socket.get(), request.group_id));
  const absl::Status told = ReceiveToken(socket.get(), request.group_id, request.deadline_ns);
  if (!told.ok()) return Annotate(told, "waiting for rank 0 to open the group: ");
  attachment.connections.push_back(std::move(socket));
  return attachment;
}

}  // namespace weft
