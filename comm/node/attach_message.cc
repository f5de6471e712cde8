#include "comm/node/attach_message.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr uint64_t kAttachMagic = 0x34'68'63'74'74'61'66'77ULL;
constexpr uint64_t kGaveUpMagic = 0x31'70'75'67'74'61'66'77ULL;
constexpr int64_t kPauseNs = 2'000'000;

// What rank 0 says in place of anything else when it gives up: only it knows for whom the others wait in vain.
struct GaveUpMessage {
  uint64_t magic;
  uint64_t group_id;
  int32_t rank;  // whose fault it is; -1: nobody's
  int32_t result;
  char sentence[480];
};

// Too many descriptors of this user are under way, perhaps other jobs': there will be fewer.
absl::Status AwaitFewerUnderWay(int64_t deadline_ns) {
  if (MonotonicNs() < deadline_ns) {
    PauseBriefly();
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

}  // namespace

AttachWait::AttachWait(const AttachRequest& request, std::function<std::string()> for_whom)
    : who(fmt::format("group {}: rank {}", request.group_name, request.rank)),
      times(MonotonicNs()),
      whom(std::move(for_whom)) {}

void AttachWait::Speak() {
  if (const int64_t waited_s = times.Due(MonotonicNs()); waited_s > 0) {
    LogWarn(who, " has waited ", waited_s, " s for ", whom(),
            "; look whether it is stopped, and at its output");
  }
}

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

absl::Status PollForAny(std::vector<pollfd>* items, int64_t deadline_ns, MemberWatch* watch,
                        std::string_view what, AttachWait* waiting) {
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

absl::Status PollFor(int fd, short events, int64_t deadline_ns, std::string_view what,
                     AttachWait* waiting) {
  std::vector<pollfd> items = {{fd, events, 0}};
  return PollForAny(&items, deadline_ns, nullptr, what, waiting);
}

void PauseBriefly() {
  poll(nullptr, 0, static_cast<int>(kPauseNs / 1'000'000));
}

absl::Status WhyGone(const AttachRequest& request, const absl::Status& otherwise) {
  const absl::Status lost = request.watch->AwaitEnd(
      std::min(request.deadline_ns, Later(MonotonicNs(), MemberWatch::kEndNs)));
  return lost.ok() ? otherwise : lost;
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

absl::Status ReceiveMessage(int socket, AttachMessage* message, AttachDescriptors* descriptors,
                            int64_t deadline_ns, AttachWait* waiting) {
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

absl::Status SendToken(int socket, uint64_t group_id) {
  while (send(socket, &group_id, sizeof(group_id), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    // One small message per direction always fits, so EAGAIN is an error too.
    if (errno == EPIPE || errno == ECONNRESET) return Closed();
    if (errno != EINTR) return SystemError(errno, "sending to a peer");
  }
  return absl::OkStatus();
}

absl::Status ReceiveToken(int socket, uint64_t group_id, int64_t deadline_ns, AttachWait* waiting) {
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

AttachMessage AttachMessageOf(const AttachRequest& request, int rank, const NodePeer& peer,
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

absl::StatusOr<std::shared_ptr<NodePeer>> PeerOfMessage(const AttachMessage& message,
                                                        AttachDescriptors descriptors) {
  return NodePeer::Open({message.pid, message.start_time, message.heap_id, message.heap_bytes,
                         message.host, message.heap_id_address, message.files_address},
                        std::move(descriptors.heap),
                        {std::move(descriptors.lifeline), message.lifeline_kind});
}

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

void SendGaveUp(int socket, uint64_t group_id, const absl::Status& why) {
  GaveUpMessage message{.magic = kGaveUpMagic,
                        .group_id = group_id,
                        .rank = FieldsOf(why).rank,
                        .result = ResultOf(why)};
  CopyText(message.sentence, FromAbsl(why.message()));
  (void)send(socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace weft
