#include "comm/node/entrants.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <poll.h>

#include "base/later.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/node/attach_message.h"
#include "comm/rendezvous/member_watch.h"

namespace weft {
namespace {

// Nothing more comes on it: it can be read when the other end has hung up.
bool IsClosed(const AttachConnection& connection) {
  pollfd item{connection.get(), POLLIN, 0};
  return !connection.valid() || poll(&item, 1, 0) > 0;
}

}  // namespace

Entrants::Entrants(const Segment& segment, const std::vector<std::shared_ptr<NodePeer>>& peers,
                   std::vector<AttachConnection> connections)
    : segment_(segment) {
  for (size_t rank = 1; rank < peers.size(); ++rank)
    undecided_.push_back({static_cast<int>(rank), peers[rank], std::move(connections[rank])});
}

// A process that ends closes its connections a moment before others can see that it has ended.
bool Entrants::HasDecided(Entrant& entrant, int64_t now_ns) const {
  std::atomic<RankState>& state = segment_.control(entrant.rank).state;
  if (state.load(std::memory_order_seq_cst) >= RankState::kJoined) return true;
  if (entrant.closed_ns == 0) {
    if (!IsClosed(entrant.connection)) return false;
    entrant.closed_ns = now_ns;
  }
  if (entrant.peer->Ended().has_value()) return true;
  if (now_ns - entrant.closed_ns < MemberWatch::kEndNs) return false;
  RankState absent = RankState::kAbsent;
  state.compare_exchange_strong(absent, RankState::kLeft, std::memory_order_seq_cst);
  return true;
}

bool Entrants::Look() {
  const int64_t now_ns = MonotonicNs();
  std::erase_if(undecided_, [&](Entrant& entrant) { return HasDecided(entrant, now_ns); });
  return undecided_.empty();
}

// Who was told to enter when its time was nearly up enters or gives up as soon as it runs. It gets a
// moment for that: the others are told more when rank 0 knows, and nothing is kept.
absl::Status Entrants::Await(int64_t deadline_ns) {
  const int64_t until_ns = Later(std::max(deadline_ns, MonotonicNs()), MemberWatch::kEndNs);
  std::vector<pollfd> open;
  while (!Look()) {
    open.clear();
    for (const Entrant& entrant : undecided_) {
      if (entrant.closed_ns == 0) open.push_back({entrant.connection.get(), POLLIN, 0});
    }
    if (open.size() < undecided_.size()) {  // for kEndNs at most
      PauseBriefly();
      continue;
    }
    absl::Status some =
        PollForAny(&open, until_ns, nullptr, "waiting for ranks to enter the group");
    if (ResultOf(some) == WEFT_INTERRUPTED) return some;
    if (!some.ok()) break;
  }
  return absl::OkStatus();
}

}  // namespace weft
