// Rank 0's part of attach.h. Two limits of the system shape it: one user's processes may have only so many descriptors on their way to each
// other, hence the rounds in which rank 0 answers; and a connection costs a descriptor before it has said who it is, hence the oldest
// silent one that gives way.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include <sys/socket.h>

#include "base/later.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/node/attach.h"
#include "comm/node/attach_message.h"
#include "comm/node/heap.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

// Connections that have not said who they are: the oldest gives way, and a rank comes again.
constexpr size_t kSilentMax = 64;
// AttachDescriptors that rank 0 has under way at a time. The system allows a user as many as RLIMIT_NOFILE, often
// 1024, in all its jobs together; 64 lists of 64 would be four times as many.
constexpr size_t kUnderWayMax = 256;

// Who has connected to rank 0; by rank.
struct Callers {
  explicit Callers(size_t size) : sockets(size), descriptors(size), messages(size) {}

  std::vector<AttachConnection> sockets;
  std::vector<AttachDescriptors> descriptors;  // but for rank 0's heap
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
  for (const AttachConnection& socket : callers.sockets) {
    if (socket.valid()) SendGaveUp(socket.get(), request.group_id, why);
  }
}

// Takes what a connection says of itself: that it is a rank that has not come yet. Others are dropped.
void Introduce(const AttachRequest& request, AttachConnection socket, Callers* callers) {
  AttachMessage message{};
  AttachDescriptors descriptors;
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

absl::Status AcceptOne(const UniqueFd& listener, std::deque<AttachConnection>* silent) {
  AttachConnection socket(AcceptSocket(listener.get(), nullptr, nullptr));
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
  std::deque<AttachConnection> silent;
  std::vector<pollfd> items;
  const auto all_came = [&] {
    return std::all_of(callers->sockets.begin() + 1, callers->sockets.end(),
                       [](const AttachConnection& socket) { return socket.valid(); });
  };
  AttachWait waiting(request, [&] {
    return NotThere(*callers) + " to exchange memory, after all ranks have met";
  });
  while (!all_came()) {
    items.assign(1, {listener.get(), POLLIN, 0});
    for (const AttachConnection& socket : silent)
      items.push_back({socket.get(), POLLIN, 0});
    for (const AttachConnection& socket : callers->sockets) {
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
    const AttachDescriptors& descriptors = callers.descriptors[rank];
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
  AttachWait waiting(request, [&] {
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
  callers.messages[0] = AttachMessageOf(request, 0, *self, lifeline.kind, segment_offset);
  callers.descriptors[0].lifeline = std::move(lifeline.fd);
  if (absl::Status came = AcceptAll(request, listener, &callers); !came.ok()) {
    SayGaveUp(request, callers, came);
    return came;
  }
  {
    WEFT_ASSIGN_OR_RETURN(const Heap::Announcement own, ProcessHeap().Retain());
    absl::Status shared = ShareLists(request, callers, own.fd);
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
    WEFT_ASSIGN_OR_RETURN(
        std::shared_ptr<NodePeer> peer,
        PeerOfMessage(callers.messages[rank], std::move(callers.descriptors[rank])));
    attachment.peers.push_back(std::move(peer));
  }
  for (size_t rank = 1; rank < size; ++rank) {
    const absl::Status told = SendToken(callers.sockets[rank].get(), request.group_id);
    if (told.ok()) continue;
    // It will not enter. The others may have, so this rank must, too.
    LogWarn("rank ", rank, " could not be told to enter the group: ", std::string(told.message()));
    callers.sockets[rank].HangUp();
  }
  attachment.connections = std::move(callers.sockets);
  return attachment;
}

}  // namespace weft
