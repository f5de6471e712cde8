// Everything here is done before ranks have a common memory, with peers that may be slow, dead, somebody else's, or of
// another version, so each step has a deadline and what comes is checked before it is used. Two limits of the system
// shape it: one user's processes may have only so many descriptors on their way to each other, hence the rounds in which
// rank 0 answers; and a connection costs a descriptor before it has said who it is, hence the oldest silent one that
// gives way.
#include "comm/node/attach.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

constexpr uint64_t kAttachMagic = 0x34'68'63'74'74'61'66'77ULL;
constexpr uint64_t kGaveUpMagic = 0x31'70'75'67'74'61'66'77ULL;
constexpr int64_t kPauseNs = 2'000'000;
// Rank 0's deadline is the others', too: so long behind it they wait for its word.
constexpr int64_t kGaveUpNs = 500'000'000;
// Connections that have not said who they are: the oldest gives way, and a rank comes again.
constexpr size_t kSilentMax = 64;
// Descriptors that rank 0 has under way at a time. The system allows a user as many as RLIMIT_NOFILE, often
// 1024, in all its jobs together; 64 lists of 64 would be four times as many.
constexpr size_t kUnderWayMax = 256;

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

// What rank 0 says in place of anything else when it gives up: only it knows for whom the others wait in vain.
struct GaveUpMessage {
  uint64_t magic;
  uint64_t group_id;
  int32_t rank;  // whose fault it is; -1: nobody's
  int32_t result;
  char sentence[480];
};

// What a process sends of itself: where its memory is, and what tells when it has ended.
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

// What is said of a wait that takes long.
struct Waiting {
  Waiting(const AttachRequest& request, std::function<std::string()> for_whom)
      : who(fmt::format("group {}: rank {}", request.group_name, request.rank)),
        whom(std::move(for_whom)) {}

  void Speak() {
    if (const int64_t waited_s = times.Due(MonotonicNs()); waited_s > 0) {
      LogWarn(who, " has waited ", waited_s, " s for ", whom(),
              "; look whether it is stopped, and at its output");
    }
  }

  const std::string who;
  NoticeTimes times{MonotonicNs()};
  const std::function<std::string()> whom;
};

// Waits until one of `items` is ready, or the deadline; or until a watched process has ended, if there is a
// `watch`, but what is ready comes first: it was sent before that.
absl::Status PollForAny(std::vector<pollfd>* items, int64_t deadline_ns, MemberWatch* watch,
                        std::string_view what, Waiting* waiting = nullptr) {
  const size_t count = items->size();
  if (watch != nullptr) watch->AppendPollItems(items);
  absl::Status status;
  int wait_ms = 0;  // who had ended before it was watched has nothing to be ready
  while (status.ok()) {
    const int ready = poll(items->data(), items->size(), wait_ms);
    if (ready < 0 && errno != EINTR) status = SystemError(errno, what);
    const auto is_ready = [](const pollfd& item) {
      return item.revents != 0;
    };
    if (ready > 0 &&
        std::any_of(items->begin(), items->begin() + static_cast<ptrdiff_t>(count), is_ready)) {
      break;
    }
    if (status.ok() && watch != nullptr) status = watch->Look();
    if (status.ok()) status = CheckInterrupt(what);
    if (status.ok() && waiting != nullptr) waiting->Speak();
    const int64_t now_ns = MonotonicNs();
    const int64_t left_ns = deadline_ns - now_ns;
    const int64_t nap_ns =
        waiting == nullptr ? left_ns : std::min(left_ns, waiting->times.next_ns() - now_ns);
    wait_ms = static_cast<int>(std::min<int64_t>(UntilInterruptNs(nap_ns) / 1'000'000 + 1, 1000));
    if (status.ok() && left_ns <= 0) {
      status = MakeError(WEFT_TIMEOUT, fmt::format("{}: the deadline passed", what));
    }
  }
  items->resize(count);
  return status;
}

// Waits until `fd` can be read or written, or the deadline.
absl::Status PollFor(int fd, short events, int64_t deadline_ns, std::string_view what,
                     Waiting* waiting = nullptr) {
  std::vector<pollfd> items = {{fd, events, 0}};
  return PollForAny(&items, deadline_ns, nullptr, what, waiting);
}

void Pause() {
  poll(nullptr, 0, static_cast<int>(kPauseNs / 1'000'000));
}

// Too many descriptors of this user are under way, perhaps other jobs': there will be fewer.
absl::Status AwaitFewerUnderWay(int64_t deadline_ns) {
  if (MonotonicNs() < deadline_ns) {
    Pause();
    return absl::OkStatus();
  }
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return MakeError(
      WEFT_SYSTEM_ERROR,
      fmt::format("sending a heap to a peer: until the deadline, this user's processes "
                  "had more descriptors under way to each other than the limit of open "
                  "files, {}, allows; raise it (ulimit -n), or start fewer jobs at once",
                  limit.rlim_cur));
}

// The other end of a connection is gone: who has ended, if somebody has, which the kernel tells a moment
// later; `otherwise` if nobody has.
absl::Status WhyGone(const AttachRequest& request, const absl::Status& otherwise) {
  const absl::Status lost = request.watch->AwaitEnd(
      std::min(request.deadline_ns, Later(MonotonicNs(), MemberWatch::kEndNs)));
  return lost.ok() ? otherwise : lost;
}

absl::Status Closed() {
  return MakeError(WEFT_PEER_LOST, "the peer closed the connection");
}

// What has come, if it is a word of rank 0's that it has given up; else Ok. Nothing in it is believed but for a message.
absl::Status CheckGaveUp(const void* data, ssize_t bytes) {
  GaveUpMessage message;
  if (bytes != static_cast<ssize_t>(sizeof(message))) return absl::OkStatus();
  std::memcpy(&message, data, sizeof(message));
  if (message.magic != kGaveUpMagic) return absl::OkStatus();
  message.sentence[sizeof(message.sentence) - 1] = 0;
  return MakeError(message.result == WEFT_TIMEOUT ? WEFT_TIMEOUT : WEFT_REMOTE_ERROR,
                   {.rank = std::max(message.rank, 0)},
                   fmt::format("rank 0 gave up making the group: {}", message.sentence));
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
    if (errno == ETOOMANYREFS) {
      WEFT_RETURN_IF_ERROR(AwaitFewerUnderWay(deadline_ns));
      continue;
    }
    if (errno == EPIPE || errno == ECONNRESET) return Closed();
    if (errno != EAGAIN) return SystemError(errno, "sending a heap to a peer");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLOUT, deadline_ns, "sending a heap to a peer"));
  }
}

absl::Status ReceiveMessage(int socket, AttachMessage* message, Descriptors* descriptors,
                            int64_t deadline_ns, Waiting* waiting = nullptr) {
  alignas(AttachMessage) std::array<char, sizeof(GaveUpMessage)> came = {};
  static_assert(sizeof(AttachMessage) < sizeof(GaveUpMessage));
  iovec data{came.data(), came.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorCount * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  std::vector<UniqueFd> taken;
  ssize_t received = -1;
  while ((received = ReceiveWithFds(socket, &header, &taken)) < 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNRESET) return Closed();
    if (errno != EAGAIN) return SystemError(errno, "receiving a peer's heap");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLIN, deadline_ns, "receiving a peer's heap", waiting));
  }
  // Whoever sends fewer or more than were asked for sends nothing of use.
  *descriptors = {};
  if (taken.size() == kDescriptorCount) *descriptors = {std::move(taken[0]), std::move(taken[1])};
  if (received == 0) return Closed();
  WEFT_RETURN_IF_ERROR(CheckGaveUp(came.data(), received));
  std::memcpy(message, came.data(), sizeof(*message));
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
    if (errno == EPIPE || errno == ECONNRESET) return Closed();
    if (errno != EINTR) return SystemError(errno, "sending to a peer");
  }
  return absl::OkStatus();
}

absl::Status ReceiveToken(int socket, uint64_t group_id, int64_t deadline_ns,
                          Waiting* waiting = nullptr) {
  std::array<char, sizeof(GaveUpMessage)> came = {};
  ssize_t received = -1;
  while ((received = recv(socket, came.data(), came.size(), MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNRESET) {  // it has closed and not read all
      received = 0;
      break;
    }
    if (errno != EAGAIN) return SystemError(errno, "receiving from a peer");
    WEFT_RETURN_IF_ERROR(PollFor(socket, POLLIN, deadline_ns, "waiting for a peer", waiting));
  }
  if (received == 0) {
    return MakeError(WEFT_REMOTE_ERROR, "it gave up making the group; its own error says why");
  }
  WEFT_RETURN_IF_ERROR(CheckGaveUp(came.data(), received));
  uint64_t found = 0;
  std::memcpy(&found, came.data(), sizeof(found));
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
  message.files_address = identity.files_address;
  message.segment_offset = segment_offset;
  message.lifeline_kind = lifeline_kind;
  std::strncpy(message.host, identity.host.c_str(), sizeof(message.host) - 1);
  return message;
}

absl::StatusOr<std::shared_ptr<NodePeer>> PeerOf(const AttachMessage& message,
                                                 Descriptors descriptors) {
  return NodePeer::Open({message.pid, message.start_time, message.heap_id, message.heap_bytes,
                         message.host, message.heap_id_address, message.files_address},
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

// "rank 2", "ranks 2, 3"
std::string NotThere(const Callers& callers) {
  std::vector<size_t> missing;
  for (size_t rank = 1; rank < callers.sockets.size(); ++rank) {
    if (!callers.sockets[rank].valid()) missing.push_back(rank);
  }
  return fmt::format("rank{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

absl::Status Missing(const absl::Status& cause, const Callers& callers) {
  if (ResultOf(cause) == WEFT_PEER_LOST) return cause;  // that one is the cause, not who is missing
  int count = 0;
  int32_t last = -1;
  for (size_t rank = 1; rank < callers.sockets.size(); ++rank) {
    if (callers.sockets[rank].valid()) continue;
    ++count;
    last = static_cast<int32_t>(rank);
  }
  return MakeError(ResultOf(cause), {.rank = count == 1 ? last : -1},
                   fmt::format("{} did not exchange memory with rank 0: {}", NotThere(callers),
                               std::string(cause.message())));
}

// Best effort, to those that have come; the others are not there to read it.
void SayGaveUp(const AttachRequest& request, const Callers& callers, const absl::Status& why) {
  GaveUpMessage message{.magic = kGaveUpMagic,
                        .group_id = request.group_id,
                        .rank = FieldsOf(why).rank,
                        .result = ResultOf(why)};
  CopyText(message.sentence, FromAbsl(why.message()));
  for (const UniqueFd& socket : callers.sockets) {
    if (socket.valid())
      (void)send(socket.get(), &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

// Takes what a connection says of itself: that it is a rank that has not come yet. Others are dropped.
void Introduce(const AttachRequest& request, UniqueFd socket, Callers* callers) {
  AttachMessage message{};
  Descriptors descriptors;
  const absl::Status received = ReceiveMessage(socket.get(), &message, &descriptors, MonotonicNs());
  const bool mine = received.ok() && message.group_id == request.group_id && message.rank > 0 &&
                    message.rank < request.size &&
                    !callers->sockets[static_cast<size_t>(message.rank)].valid();
  if (!mine) {
    LogWarn("refused a connection to the node socket: ",
            received.ok() ? "it is not of this group" : std::string(received.message()));
    return;
  }
  const auto rank = static_cast<size_t>(message.rank);
  callers->sockets[rank] = std::move(socket);
  callers->descriptors[rank] = std::move(descriptors);
  callers->messages[rank] = message;
}

absl::Status AcceptOne(const UniqueFd& listener, std::deque<UniqueFd>* silent) {
  UniqueFd socket = AcceptSocket(listener.get(), nullptr, nullptr);
  if (!socket.valid()) {
    if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return absl::OkStatus();
    return SystemError(errno, "accepting a connection");
  }
  if (const absl::Status user = CheckUser(socket.get()); !user.ok()) {
    LogWarn("refused a connection to the node socket: ", std::string(user.message()));
    return absl::OkStatus();
  }
  if (silent->size() == kSilentMax) silent->pop_front();
  silent->push_back(std::move(socket));
  return absl::OkStatus();
}

// A rank that has come says nothing more before it has the list: it is readable when it has closed.
absl::Status CheckCallers(const AttachRequest& request, const std::vector<pollfd>& items,
                          const Callers& callers) {
  for (size_t rank = 1; rank < callers.sockets.size(); ++rank) {
    const bool gone = std::any_of(items.begin(), items.end(), [&](const pollfd& item) {
      return item.revents != 0 && item.fd == callers.sockets[rank].get();
    });
    if (!gone) continue;
    return WhyGone(request, MakeError(WEFT_REMOTE_ERROR, {.rank = static_cast<int32_t>(rank)},
                                      fmt::format("rank {} gave up making the group; its own error "
                                                  "says why",
                                                  rank)));
  }
  return absl::OkStatus();
}

// Slow ones and strangers keep nobody else waiting.
absl::Status AcceptAll(const AttachRequest& request, const UniqueFd& listener, Callers* callers) {
  std::deque<UniqueFd> silent;
  std::vector<pollfd> items;
  const auto all_came = [&] {
    return std::all_of(callers->sockets.begin() + 1, callers->sockets.end(),
                       [](const UniqueFd& socket) { return socket.valid(); });
  };
  Waiting waiting(request, [&] {
    return NotThere(*callers) + " to exchange memory, after all ranks have met";
  });
  while (!all_came()) {
    items.assign(1, {listener.get(), POLLIN, 0});
    for (const UniqueFd& socket : silent)
      items.push_back({socket.get(), POLLIN, 0});
    for (const UniqueFd& socket : callers->sockets) {
      if (socket.valid()) items.push_back({socket.get(), POLLIN, 0});
    }
    const absl::Status ready = PollForAny(&items, request.deadline_ns, request.watch,
                                          "waiting for the node's other ranks", &waiting);
    if (!ready.ok()) return Missing(ready, *callers);
    WEFT_RETURN_IF_ERROR(CheckCallers(request, items, *callers));
    for (size_t i = silent.size(); i-- > 0;) {
      if (items[1 + i].revents == 0) continue;
      Introduce(request, std::move(silent[i]), callers);
      silent.erase(silent.begin() + static_cast<ptrdiff_t>(i));
    }
    if (items[0].revents == 0) continue;
    if (const absl::Status one = AcceptOne(listener, &silent); !one.ok()) {
      return Missing(one, *callers);
    }
  }
  return absl::OkStatus();
}

absl::Status SendList(const AttachRequest& request, const Callers& callers, size_t to,
                      int own_heap) {
  for (size_t rank = 0; rank < callers.sockets.size(); ++rank) {
    const Descriptors& descriptors = callers.descriptors[rank];
    WEFT_RETURN_IF_ERROR(SendMessage(callers.sockets[to].get(), callers.messages[rank],
                                     rank == 0 ? own_heap : descriptors.heap.get(),
                                     descriptors.lifeline.get(), request.deadline_ns));
  }
  return absl::OkStatus();
}

absl::Status DidNotMap(const AttachRequest& request, size_t rank, const absl::Status& why) {
  const absl::Status said = MakeError(
      ResultOf(why), {.rank = static_cast<int32_t>(rank)},
      fmt::format("rank {} did not map the group's memory: {}", rank, std::string(why.message())));
  return ResultOf(why) == WEFT_TIMEOUT ? said : WhyGone(request, said);
}

// Sends everybody the list, some at a time, and waits until they have mapped what is in it.
absl::Status ShareLists(const AttachRequest& request, const Callers& callers, int own_heap) {
  const size_t size = callers.sockets.size();
  const size_t at_once = std::max<size_t>(1, kUnderWayMax / (size * kDescriptorCount));
  std::vector<size_t> told;  // and have not said yet that they have mapped it
  Waiting waiting(request, [&] {
    return fmt::format("rank{} {} to map the group's memory", told.size() == 1 ? "" : "s",
                       fmt::join(told, ", "));
  });
  std::vector<pollfd> items;
  for (size_t next = 1; next < size || !told.empty();) {
    for (; next < size && told.size() < at_once; ++next) {
      if (const absl::Status sent = SendList(request, callers, next, own_heap); !sent.ok()) {
        return DidNotMap(request, next, sent);
      }
      told.push_back(next);
    }
    items.clear();
    for (const size_t rank : told)
      items.push_back({callers.sockets[rank].get(), POLLIN, 0});
    const absl::Status ready = PollForAny(&items, request.deadline_ns, request.watch,
                                          "waiting for a peer to map the group's memory", &waiting);
    if (!ready.ok()) {
      return ResultOf(ready) == WEFT_PEER_LOST ? ready : DidNotMap(request, told.front(), ready);
    }
    for (size_t i = told.size(); i-- > 0;) {
      if (items[i].revents == 0) continue;
      const absl::Status mapped =
          ReceiveToken(callers.sockets[told[i]].get(), request.group_id, request.deadline_ns);
      if (!mapped.ok()) return DidNotMap(request, told[i], mapped);
      told.erase(told.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForAttach(const std::string& socket_name) {
  UniqueFd listener = MakeSocket(AF_UNIX, SOCK_SEQPACKET);
  if (!listener.valid()) return RefusedCallError(errno, "socket", "making the node socket");
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
  if (absl::Status came = AcceptAll(request, listener, &callers); !came.ok()) {
    SayGaveUp(request, callers, came);
    return came;
  }
  {
    WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
    const absl::Status shared = ShareLists(request, callers, own.fd);
    ProcessHeap().Release();
    if (!shared.ok()) {
      SayGaveUp(request, callers, shared);
      return shared;
    }
  }
  Attachment attachment;
  attachment.segment_offset = segment_offset;
  attachment.peers.push_back(std::move(self));
  for (size_t rank = 1; rank < size; ++rank) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<NodePeer> peer,
                          PeerOf(callers.messages[rank], std::move(callers.descriptors[rank])));
    attachment.peers.push_back(std::move(peer));
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

namespace {

bool EndsSoon(NodePeer& peer) {
  const int64_t until_ns = MonotonicNs() + MemberWatch::kEndNs;
  while (!peer.Ended().has_value()) {
    if (MonotonicNs() >= until_ns) return false;
    Pause();
  }
  return true;
}

}  // namespace

void AwaitEntry(const Segment& segment, const AttachRequest& request,
                const Attachment& attachment) {
  // Who was told to enter when its time was nearly up enters or gives up as soon as it runs. It gets a moment for that, because
  // memory that a rank may still enter is kept until its process ends.
  const int64_t until_ns = Later(std::max(request.deadline_ns, MonotonicNs()), MemberWatch::kEndNs);
  for (int rank = 1; rank < request.size; ++rank) {
    const UniqueFd& connection = attachment.connections[static_cast<size_t>(rank)];
    // Nothing more comes on it: it becomes readable when the rank closes it.
    if (connection.valid() &&
        !PollFor(connection.get(), POLLIN, until_ns, "waiting for a rank").ok()) {
      continue;
    }
    // Who has ended did not give up: that is what the others are to be told.
    const bool joined =
        segment.control(rank).state.load(std::memory_order_seq_cst) >= RankState::kJoined;
    if (!joined && EndsSoon(*attachment.peers[static_cast<size_t>(rank)])) continue;
    RankState absent = RankState::kAbsent;
    segment.control(rank).state.compare_exchange_strong(absent, RankState::kLeft,
                                                        std::memory_order_seq_cst);
  }
}

namespace {

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

absl::StatusOr<UniqueFd> ConnectToLeader(const AttachRequest& request) {
  UniqueFd socket = MakeSocket(AF_UNIX, SOCK_SEQPACKET);
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
    Pause();
  }
  WEFT_RETURN_IF_ERROR(CheckUser(socket.get()));
  return socket;
}

// Connects, says who this is, and takes the first message of the list. Rank 0 drops those that have
// connected and not spoken if there are many, as a rank may be that is slow: it comes again.
absl::StatusOr<UniqueFd> CallLeader(const AttachRequest& request, const NodePeer& self,
                                    AttachMessage* first, Descriptors* descriptors,
                                    Waiting* waiting) {
  WEFT_ASSIGN_OR_RETURN(const Lifeline lifeline, OwnLifeline());
  while (true) {
    WEFT_ASSIGN_OR_RETURN(UniqueFd socket, ConnectToLeader(request));
    WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
    absl::Status status =
        SendMessage(socket.get(), MessageOf(request, request.rank, self, lifeline.kind, 0), own.fd,
                    lifeline.fd.get(), request.deadline_ns);
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
  Descriptors descriptors;
  Waiting waiting(request, [] { return std::string("rank 0 to share the group's memory"); });
  WEFT_ASSIGN_OR_RETURN(UniqueFd socket,
                        CallLeader(request, *self, &message, &descriptors, &waiting));
  Attachment attachment;
  attachment.peers.resize(static_cast<size_t>(request.size));
  for (int expected = 0; expected < request.size; ++expected) {
    if (expected > 0) {
      const absl::Status received = ReceiveMessage(
          socket.get(), &message, &descriptors, Later(request.deadline_ns, kGaveUpNs), &waiting);
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
      WEFT_ASSIGN_OR_RETURN(peer, PeerOf(message, std::exchange(descriptors, {})));
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
