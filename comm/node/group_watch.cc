#include "comm/node/group_watch.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "comm/node/channel.h"
#include "comm/node/early_leavers.h"

namespace weft {
namespace {

constexpr int64_t kLookAgainNs = 5'000'000;  // at ranks that serve others still

bool IsBehind(uint32_t done, uint32_t sequence) {
  return static_cast<int32_t>(done - sequence) < 0;
}

}  // namespace

void GroupWatch::AppendLifelines(std::vector<int>* lifelines) const {
  for (const auto& peer : state_.peers) {
    if (const int lifeline = peer->lifeline(); lifeline >= 0) lifelines->push_back(lifeline);
  }
}

// Its channel to `to` has something that was not read. In the heap of `from`, which stays mapped.
bool GroupWatch::HasUnread(int from, int to) const {
  const uint64_t place = state_.segment.messages(to).inbox[from].load(std::memory_order_acquire);
  if (place == 0) return false;
  const char* const at = state_.peers[static_cast<size_t>(from)]->At(place - 1, sizeof(Channel));
  if (at == nullptr || (place - 1) % alignof(Channel) != 0) return false;
  const auto& channel = *reinterpret_cast<const Channel*>(at);
  return channel.produced.load(std::memory_order_acquire) !=
         channel.consumed.load(std::memory_order_acquire);
}

// Some living rank has not finished an operation that `rank`, which has ended, came to, or has not read what it sent.
bool GroupWatch::Serves(int rank) const {
  const RankControl& ended = state_.control(rank);
  uint32_t last = ended.done.load(std::memory_order_acquire);
  for (uint64_t ahead = 0; ahead < kWindow; ++ahead) {
    const Arrival& line = ended.arrivals[(last + 1) % kWindow];
    if (line.sequence.load(std::memory_order_acquire) != last + 1) break;
    ++last;
  }
  for (int other = 0; other < state_.size; ++other) {
    const RankControl& control = state_.control(other);
    const bool lives = control.state.load(std::memory_order_acquire) == RankState::kJoined &&
                       ended_ns_[static_cast<size_t>(other)] == 0;
    if (!lives || other == rank) continue;
    if (IsBehind(control.done.load(std::memory_order_acquire), last)) return true;
    if (HasUnread(rank, other)) return true;
  }
  return false;
}

// Whom a signal has ended comes before who exited by itself: that one may have given up because of the other.
int64_t GroupWatch::LookAtRanks(int64_t now_ns) {
  struct Lost {
    int rank = -1;
    ExitInfo exit;
  } lost;

  int64_t next_ns = INT64_MAX;
  std::array<std::optional<ExitInfo>, kNodeRanksMax> exits;
  for (int rank = 0; rank < state_.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    exits[index] = state_.LossOf(rank);
    if (exits[index] && ended_ns_[index] == 0) ended_ns_[index] = now_ns;
  }
  for (int rank = 0; rank < state_.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    if (!exits[index]) continue;
    const int64_t ended_for_ns = now_ns - ended_ns_[index];
    const bool killed = exits[index]->signal > 0;
    const bool others_come = !killed && ended_for_ns < EarlyLeavers::kMomentNs;
    const bool others_say = !killed && ended_for_ns < kGraceNs && CallsDiffer(state_);
    if (others_come || others_say || (ended_for_ns < kGraceNs && Serves(rank))) {
      next_ns = now_ns + kLookAgainNs;
    } else if (lost.rank < 0 || (exits[index]->signal > 0 && lost.exit.signal <= 0)) {
      lost = {rank, *exits[index]};
    }
  }
  if (lost.rank < 0) return next_ns;
  End(failures_.PeerLost(nullptr, lost.rank, lost.exit));
  return INT64_MAX;
}

void GroupWatch::End(const absl::Status& cause) {
  failures_.Raise(cause);
  // Another rank may have been first: its parts end by the same cause as the group.
  parts_.Fail(failures_.Cause());
  NotifyAll(woken_);
}

// A process that is several ranks of the group, as threads, waits for itself.
std::optional<ProcessWait> GroupWatch::Wait() const {
  const Visit visit(gate_);
  if (!visit.inside() || state_.aborted() || !report_.shown()) return std::nullopt;
  const auto selves = std::count_if(state_.peers.begin(), state_.peers.end(),
                                    [](const auto& peer) { return peer->is_self(); });
  return selves == 1 ? report_.shown() : std::nullopt;
}

void GroupWatch::Show(const std::optional<ProcessWait>& wait) {
  static_assert(std::is_trivially_copyable_v<ProcessWait> &&
                sizeof(ProcessWait) <= sizeof(WaitNotice));
  const Visit visit(gate_);
  if (!visit.inside()) return;
  if (!wait) return notices_.Clear(NoticeBoard::kProcessPlace);
  WaitNotice notice{};
  std::memcpy(notice.data(), &*wait, sizeof(*wait));
  notices_.Show(NoticeBoard::kProcessPlace, notice);
}

std::optional<ProcessWait> GroupWatch::Read(const ProcessName& process) const {
  const Visit visit(gate_);
  if (!visit.inside()) return std::nullopt;
  for (int rank = 0; rank < state_.size; ++rank) {
    const NodePeer& peer = *state_.peers[static_cast<size_t>(rank)];
    const ProcessName name = ProcessNameOf(peer);
    WaitNotice notice;
    if (!(name == process) || notices_.Read(rank, NoticeBoard::kProcessPlace, &notice) == 0)
      continue;
    ProcessWait wait;
    std::memcpy(static_cast<void*>(&wait), notice.data(), sizeof(wait));
    wait.process = name;
    return wait;
  }
  return std::nullopt;
}

int64_t GroupWatch::Look(int64_t now_ns) {
  const Visit visit(gate_);
  if (!visit.inside()) return INT64_MAX;
  const int64_t next_ns = state_.aborted() ? INT64_MAX : LookAtRanks(now_ns);
  if (state_.aborted()) {
    parts_.Fail(failures_.Cause());
    return INT64_MAX;
  }
  return std::min(next_ns, report_.Look(now_ns));
}

}  // namespace weft
