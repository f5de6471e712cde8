// Ends are noticed as they happen, as far as there are descriptors that say so (there are none in a simulation); whether somebody is
// stalled nothing says, so it is looked at from time to time.
#include "comm/agent/island_side.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// Shares of the limit: a speaker that is stopped is found to be so, and another one speaks, long before its island is missed. A look
// reads four small files, some 150 us.
constexpr int kLooksPerLimit = 15;
constexpr int kStalledPerLimit = 15;
constexpr int64_t kLookMaxNs = 1'000'000'000;
// Between two looks of a process that leaves at those that stay.
constexpr int64_t kLeavingNs = 2'000'000;
constexpr int kLeavesPerLimit = 6;

}  // namespace

IslandSide::IslandSide(const Seams& seams, const IslandAgentSettings& settings,
                       const IslandMap& map, IslandMemory* memory, int island, int process)
    : seams_(seams),
      map_(map),
      island_(island),
      memory_(memory),
      place_(static_cast<size_t>(process)),
      look_ns_(std::min(BoundedIslandLimit(settings.limit_ns) / kLooksPerLimit, kLookMaxNs)),
      stalled_ns_(std::min(BoundedIslandLimit(settings.limit_ns) / kStalledPerLimit, kLookMaxNs)),
      leave_ns_(std::min(BoundedIslandLimit(settings.limit_ns), kLeaveMaxNs)),
      agent_(seams, settings, map, memory, island, process) {}

IslandSide::~IslandSide() = default;

absl::Status IslandSide::Watch() {
  std::vector<Fellow> fellows;
  for (const IslandProcess& process : map_.island(island_).processes) {
    Fellow fellow{.world_rank = process.world_rank};
    if (fellows.size() != place_) {
      absl::StatusOr<std::unique_ptr<PeerProcess>> opened =
          seams_.proc->Open(process.pid, process.start_time);
      if (!opened.ok()) return opened.status();
      fellow.process = *std::move(opened);
    }
    fellows.push_back(std::move(fellow));
  }
  fellows_ = std::move(fellows);
  return absl::OkStatus();
}

void IslandSide::Leave() {
  leaving_ = true;
  left_ns_ = awaited_ns_ = seams_.clock->NowNs();
  memory_->SetPresence(static_cast<int>(place_), IslandPresence::kLeaving);
}

// One that speaks, or will, comes before this one: it may leave as well, but lives, and has not gone.
bool IslandSide::IsSpokenFor(int64_t now_ns) {
  for (size_t place = 0; place < place_; ++place) {
    Fellow& fellow = fellows_[place];
    const bool gone = memory_->PresenceOf(static_cast<int>(place)) == IslandPresence::kGone;
    if (gone || fellow.process->Ended() || Stalls(&fellow, now_ns)) continue;
    return true;
  }
  return false;
}

bool IslandSide::IsLast() const {
  for (size_t place = 0; place < fellows_.size(); ++place) {
    if (place != place_ && !fellows_[place].ended) return false;
  }
  return true;
}

// A speaker has seen that this process leaves, and tells it; or the members of an epoch do without it.
bool IslandSide::IsSaid() const {
  const IslandState state = memory_->Read();
  const int rank = fellows_[place_].world_rank;
  return !state.members.Has(rank) ||
         std::any_of(state.deaths.begin(), state.deaths.end(),
                     [rank](const RankDeath& death) { return death.world_rank == rank; });
}

// Who speaks stays until the next one has taken over, or until all have left and that is told: or the others would miss the island.
void IslandSide::StepLeaving(int64_t now_ns) {
  if (!agent_.speaking() && !IsSaid() && !IsSpokenFor(now_ns)) {
    Choose(now_ns);  // what it must tell beside, it is told now
    agent_.Step();
    return;
  }
  const bool spoke = agent_.speaking();
  if (spoke && fellows_[place_].world_rank >= 0) agent_.LocalLeave(fellows_[place_].world_rank);
  agent_.Step();
  gone_ = spoke ? !agent_.speaking() || (IsLast() && agent_.AllTold()) : IsSaid();
  if (!gone_) return;
  memory_->SetPresence(static_cast<int>(place_), IslandPresence::kGone);
  agent_.Hush();
}

// Who speaks wants to know of all ends, the others of those that may make them speak.
bool IslandSide::Concerns(size_t place) const {
  const Fellow& fellow = fellows_[place];
  return fellow.process != nullptr && !fellow.ended && (place < place_ || agent_.speaking());
}

void IslandSide::AppendPollItems(std::vector<PollItem>* items) const {
  for (size_t place = 0; place < fellows_.size(); ++place) {
    const int fd = Concerns(place) ? fellows_[place].process->fd() : -1;
    if (fd >= 0) items->push_back({.handle = fd, .want_read = true});
  }
  agent_.AppendPollItems(items);
}

int64_t IslandSide::NextWakeNs() const {
  if (gone_) return std::numeric_limits<int64_t>::max();
  // What it waits for happens in another process.
  if (leaving_) return std::min(agent_.NextWakeNs(), seams_.clock->NowNs() + kLeavingNs);
  // Who does not speak may have to; those below it may be stalled, or go on.
  bool looks = !agent_.speaking();
  for (size_t place = 0; place < fellows_.size(); ++place) {
    if (Concerns(place)) looks = looks || place < place_ || fellows_[place].process->fd() < 0;
  }
  return std::min(agent_.NextWakeNs(), looks ? next_look_ns_ : std::numeric_limits<int64_t>::max());
}

void IslandSide::Step() {
  const int64_t now_ns = seams_.clock->NowNs();
  NoticeEnds();
  const bool look = now_ns >= next_look_ns_;
  if (look) next_look_ns_ = now_ns + look_ns_;
  if (gone_) return;
  if (leaving_) {
    StepLeaving(now_ns);
    // In a step, which has taken what had come: a process that had no CPU for a while gives nothing up before it has looked.
    if (agent_.AwaitsNeighbour()) awaited_ns_ = now_ns;
    may_give_up_ =
        now_ns >= std::min(awaited_ns_ + leave_ns_ / kLeavesPerLimit, left_ns_ + leave_ns_);
    return;
  }
  if (look || !agent_.speaking()) Choose(now_ns);
  agent_.Step();
}

void IslandSide::NoticeEnds() {
  std::vector<PollItem> items;
  std::vector<Fellow*> asked;
  const bool all = seams_.clock->NowNs() >= next_look_ns_;
  for (size_t place = 0; place < fellows_.size(); ++place) {
    Fellow& fellow = fellows_[place];
    if (!Concerns(place)) continue;
    if (memory_->PresenceOf(static_cast<int>(place)) != IslandPresence::kThere) {
      fellow.left = fellow.ended = true;
      continue;
    }
    if (fellow.process->fd() < 0) {
      fellow.ended = all && fellow.process->Ended();
      continue;
    }
    items.push_back({.handle = fellow.process->fd(), .want_read = true});
    asked.push_back(&fellow);
  }
  // One call for all of them.
  if (!items.empty() && seams_.net->Poll(items, std::numeric_limits<int64_t>::min()).ok()) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].readable) asked[i]->ended = asked[i]->process->Ended();
    }
  }
  if (!agent_.speaking()) return;
  for (Fellow& fellow : fellows_) {
    if (!fellow.ended || std::exchange(fellow.told, true) || fellow.world_rank < 0) continue;
    if (fellow.left)
      agent_.LocalLeave(fellow.world_rank);
    else
      agent_.LocalDeath(fellow.world_rank, fellow.process->Exit());
  }
}

bool IslandSide::Stalls(Fellow* fellow, int64_t now_ns) {
  if (!IsStalled(fellow->process->State())) {
    fellow->stalled_since_ns = -1;
    return false;
  }
  if (fellow->stalled_since_ns < 0) fellow->stalled_since_ns = now_ns;
  return now_ns >= fellow->stalled_since_ns + stalled_ns_;
}

void IslandSide::Choose(int64_t now_ns) {
  for (size_t place = 0; place < place_; ++place) {
    Fellow& fellow = fellows_[place];
    if (fellow.ended || Stalls(&fellow, now_ns)) continue;
    if (agent_.speaking()) agent_.Hush();
    return;
  }
  if (agent_.speaking()) return;
  for (Fellow& fellow : fellows_)
    fellow.told = false;
  if (const absl::Status speaks = agent_.Speak(); !speaks.ok()) {
    LogWarn("agent: island ", island_, ": ", FromAbsl(speaks.message()));
    return;
  }
  ++beginnings_;
  NoticeEnds();
}

}  // namespace weft
