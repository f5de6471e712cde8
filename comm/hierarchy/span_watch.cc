// The other islands learn of an end by a look at the inner groups every 20 ms, which only the speaker takes: who raises a failure need
// not know who that is. Failures are rare; a bell between processes for them would be one more thing that has to be right.
#include "comm/hierarchy/span_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/progress.h"

namespace weft {
namespace {

constexpr int64_t kFoundNs = 20'000'000;
constexpr int64_t kCauseNapNs = 1'000'000;
// Of the limit: a failure that is found, islands that are found unreachable meanwhile, those that do not close.
constexpr int kLimitsOfPatience = 3;
// How long the last of an island tries to tell the others that it leaves. They may have left as well, a moment before they were connected
// with it: then nobody answers.
constexpr int kLeavesPerLimit = 6;

}  // namespace

SpanWatch::SpanWatch(const Seams& seams, const IslandAgentSettings& settings,
                     std::shared_ptr<const IslandMap> map, std::byte* block, int island,
                     int process, UniqueFd address)
    : map_(std::move(map)),
      address_(std::move(address)),
      limit_ns_(BoundedIslandLimit(settings.limit_ns)),
      memory_(*map_, island, process, block),
      side_(seams, settings, *map_, &memory_, island, process),
      ended_(map_->rank_count()),
      read_memory_(*map_, island, process, block) {}

absl::Status SpanWatch::Begin() {
  MutexLock lock(mutex_);
  return side_.Watch();
}

void SpanWatch::Add(std::shared_ptr<SpanEnd> group) {
  MutexLock lock(mutex_);
  groups_.push_back({.end = std::move(group)});
}

void SpanWatch::Remove(const SpanEnd* group) {
  std::shared_ptr<SpanEnd> removed;  // released without the lock
  MutexLock lock(mutex_);
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [group](const Group& known) { return known.end.get() == group; });
  if (found == groups_.end()) return;
  removed = std::move(found->end);
  groups_.erase(found);
}

void SpanWatch::Leave() {
  if (!origin_.here()) return;
  {
    MutexLock lock(mutex_);
    if (left_) return;
    side_.Leave();
  }
  LookUntil(limit_ns_ / kLeavesPerLimit, [this] {
    MutexLock lock(mutex_);
    return side_.gone();
  });
  MutexLock lock(mutex_);
  left_ = true;
}

// While whoever moves the agent goes on; with WEFT_PROGRESS=caller that is this thread.
void SpanWatch::LookUntil(int64_t patience_ns, const std::function<bool()>& done) {
  Deadline patience{patience_ns};
  EventCount nap;
  LookSoon();
  while (!done() && !patience.Passed(MonotonicNs())) {
    LookAfterGroups();
    Deadline brief{kCauseNapNs};
    (void)WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 0}, brief, done, [] { return false; });
  }
}

absl::Status SpanWatch::Cause(const SpanEnd& group) {
  MutexLock lock(read_mutex_);
  if (const uint64_t version = read_memory_.version(); version != read_version_) {
    verdicts_ = read_memory_.ReadVerdicts();
    read_version_ = version;
  }
  for (const GroupVerdict& verdict : verdicts_) {
    if (verdict.settled && verdict.record.group_id == group.group_id()) {
      return group.StatusOf(verdict.record);
    }
  }
  return absl::OkStatus();
}

absl::Status SpanWatch::AwaitCause(const SpanEnd& group, const absl::Status& found) {
  absl::Status cause;
  LookUntil(kLimitsOfPatience * limit_ns_, [&] {
    cause = Cause(group);
    return !cause.ok();
  });
  return cause.ok() ? found : cause;
}

// --- Watched -------------------------------------------------------------------------------------

void SpanWatch::AppendPollItems(std::vector<PollItem>* items) const {
  MutexLock lock(mutex_);
  if (!left_) side_.AppendPollItems(items);
}

int64_t SpanWatch::Look(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (left_ || !origin_.here()) return std::numeric_limits<int64_t>::max();
  side_.Step();
  Hear();
  Tell();
  const int64_t wake_ns = side_.NextWakeNs();
  return side_.agent().speaking() ? std::min(wake_ns, now_ns + kFoundNs) : wake_ns;
}

// What has been found here since the last time; a new speaker says all of it again.
void SpanWatch::Tell() {
  if (!side_.agent().speaking()) return;
  if (std::exchange(told_beginning_, side_.beginnings()) != side_.beginnings()) {
    for (Group& group : groups_)
      group.told = false;
  }
  for (Group& group : groups_) {
    if (!group.told) Say(&group, group.end->Found());
  }
  side_.agent().Step();
  Hear();
}

void SpanWatch::Say(Group* group, const std::optional<FailureRecord>& record) {
  if (!record) return;
  // Too many at once: the next look says it again.
  group->told = ResultOf(side_.agent().LocalRecord(*record)) != WEFT_OUT_OF_MEMORY;
}

void SpanWatch::Hear() {
  while (const std::optional<IslandEvent> event = side_.agent().NextEvent()) {
    switch (event->kind) {
      case IslandEvent::Kind::kRankDead:
        NoteDeath(event->rank, event->exit);
        break;
      case IslandEvent::Kind::kRankLeft:
        ended_.Add(event->rank);
        break;
      case IslandEvent::Kind::kUnreachable:
        for (Group& group : groups_)
          Say(&group, group.end->Unreachable(map_->RanksOf(event->island)));
        break;
      case IslandEvent::Kind::kRecordSettled:
        NoteSettled(event->verdict.record);
        break;
      case IslandEvent::Kind::
          kGroupFailed:  // until it is settled, ranks here may find a better cause
      case IslandEvent::Kind::kAgreed:
      case IslandEvent::Kind::kLeftBehind:
      case IslandEvent::Kind::kNoQuorum:
      case IslandEvent::Kind::kLate:
        break;
    }
  }
}

// What a death means for groups its own island knows best: the rank may have left them. If none of its ranks is left, others must say it.
void SpanWatch::NoteDeath(int world_rank, const ExitInfo& exit) {
  ended_.Add(world_rank);
  for (const int fellow : map_->RanksOf(map_->IslandOf(world_rank))) {
    if (!ended_.Has(fellow)) return;
  }
  for (Group& group : groups_)
    Say(&group, group.end->Dead(world_rank, exit));
}

void SpanWatch::NoteSettled(const FailureRecord& record) {
  for (Group& group : groups_) {
    if (group.end->group_id() != record.group_id) continue;
    group.told = true;
    group.end->Raise(record);
  }
}

}  // namespace weft
