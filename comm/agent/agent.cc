#include "comm/agent/agent.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weft {

void Agent::Hold(int lifeline) {
  if (lifelines_[lifeline]++ == 0 && set_.open()) (void)set_.Add(lifeline);
}

void Agent::LetGo(int lifeline) {
  const auto known = lifelines_.find(lifeline);
  if (known == lifelines_.end() || --known->second > 0) return;
  lifelines_.erase(known);
  if (set_.open()) set_.Remove(lifeline);
}

void Agent::Add(std::shared_ptr<Watched> group) {
  std::vector<int> lifelines;
  group->AppendLifelines(&lifelines);
  const int64_t next_ns = clock_.NowNs() + kTickNs;
  MutexLock lock(mutex_);
  entries_.push_back({.group = std::move(group), .next_ns = next_ns});
  for (const int lifeline : lifelines)
    Hold(lifeline);
  next_ns_.store(std::min(next_ns, next_ns_.load()));
}

std::shared_ptr<Watched> Agent::Remove(const Watched* group) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [group](const Entry& entry) {
    return entry.group.get() == group;
  });
  if (found == entries_.end()) return nullptr;
  std::vector<int> lifelines;
  group->AppendLifelines(&lifelines);
  for (const int lifeline : lifelines)
    LetGo(lifeline);
  std::shared_ptr<Watched> removed = std::move(found->group);
  entries_.erase(found);
  return removed;
}

// One that is due and was not looked at in this step; groups may come and go in between.
std::shared_ptr<Watched> Agent::TakeDue(int64_t now_ns, bool all) {
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.step == step_ || (!all && entry.next_ns > now_ns)) continue;
    entry.step = step_;
    entry.next_ns = now_ns + kTickNs;  // until it says itself
    return entry.group;
  }
  return nullptr;
}

// Descriptors say so once. Those that a group has closed are in the set no more.
void Agent::Arm(const Watched& group) {
  items_.clear();
  group.AppendPollItems(&items_);
  if (!set_.open()) return;
  MutexLock lock(mutex_);
  for (const PollItem& item : items_) {
    // One that was closed meanwhile, and whose number is a process's now, is no socket any more.
    if (!lifelines_.contains(item.handle)) (void)set_.Add(item);
  }
}

void Agent::FindNext() {
  MutexLock lock(mutex_);
  int64_t next_ns = INT64_MAX;
  for (const Entry& entry : entries_)
    next_ns = std::min(next_ns, entry.next_ns);
  next_ns_.store(next_ns);
}

void Agent::Schedule(const Watched* group, int64_t next_ns) {
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.group.get() != group) continue;
    entry.next_ns = next_ns;
    next_ns_.store(std::min(next_ns, next_ns_.load()));
  }
}

// The oldest wait of this process, if it waits in one group at all; a group in which it does not wait costs a question.
void Agent::LookAtWaits() {
  std::vector<std::shared_ptr<Watched>> groups;
  std::optional<ProcessWait> oldest;
  {
    MutexLock lock(mutex_);
    for (const Entry& entry : entries_) {
      const std::optional<ProcessWait> wait = entry.group->Wait();
      if (wait && (!oldest || wait->since_ns < oldest->since_ns)) oldest = wait;
    }
    if (!oldest && !shown_) return;
    groups.reserve(entries_.size());
    for (const Entry& entry : entries_)
      groups.push_back(entry.group);
  }
  for (const std::shared_ptr<Watched>& group : groups)
    group->Show(oldest);
  shown_ = oldest;
  LookForCycle(groups);
}

void Agent::LookForCycle(const std::vector<std::shared_ptr<Watched>>& groups) {
  std::vector<ProcessWait> cycle;
  if (shown_) {
    cycle = FindWaitCycle(*shown_, [&](const ProcessName& process) {
      std::optional<ProcessWait> wait;
      for (auto group = groups.begin(); group != groups.end() && !wait; ++group)
        wait = (*group)->Read(process);
      return wait;
    });
  }
  const int64_t now_ns = clock_.NowNs();
  const bool again = !cycle.empty() && IsSeenAgain(cycle);
  if (!again) {
    cycle_ = std::vector<ProcessWait>(
        cycle);  // not into the room of one that has gone, which would stay
    cycle_looks_ = 0;
    cycle_since_ns_ = now_ns;
  }
  if (cycle.empty() || cycle_looks_ < 0) return;
  if (++cycle_looks_ < kCycleLooks || now_ns - cycle_since_ns_ < kCycleNs) return;
  // The first one is this process.
  for (size_t i = 1; i < cycle.size(); ++i) {
    if (cycle[i].looks - cycle_[i].looks < kCycleShows) return;
  }
  cycle_looks_ = -1;
  LogWarn(CycleText(cycle));
}

// It is the one that was seen before, and nothing has moved.
bool Agent::IsSeenAgain(const std::vector<ProcessWait>& cycle) const {
  return std::equal(cycle.begin(), cycle.end(), cycle_.begin(), cycle_.end(),
                    [](const ProcessWait& now, const ProcessWait& before) {
                      return now.process == before.process && now.version == before.version;
                    });
}

int64_t Agent::NextNs(int64_t now_ns) const {
  return hurried_.load(std::memory_order_acquire) ? now_ns : next_ns_.load();
}

int64_t Agent::Step(bool event) {
  if (event) Hurry();
  const int64_t now_ns = clock_.NowNs();
  if (NextNs(now_ns) > now_ns || stepping_.exchange(true, std::memory_order_acquire)) {
    return NextNs(now_ns);
  }
  const bool all = hurried_.exchange(false, std::memory_order_acq_rel);
  ++step_;
  while (const std::shared_ptr<Watched> group = TakeDue(now_ns, all)) {
    const int64_t next_ns = group->Look(now_ns);
    if (next_ns < now_ns + kTickNs) Schedule(group.get(), next_ns);
    Arm(*group);
  }
  FindNext();
  LookAtWaits();
  stepping_.store(false, std::memory_order_release);
  return NextNs(now_ns);
}

}  // namespace weft
