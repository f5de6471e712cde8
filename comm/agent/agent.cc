#include "comm/agent/agent.h"

#include <algorithm>
#include <new>
#include <utility>

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
  entries_.push_back({std::move(group), next_ns});
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

// False while there is no memory for the list: the next step tries again.
bool Agent::TakeDue(int64_t now_ns, bool all) {
  MutexLock lock(mutex_);
  try {
    due_.reserve(entries_.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  int64_t next_ns = INT64_MAX;
  for (Entry& entry : entries_) {
    if (all || entry.next_ns <= now_ns) {
      due_.push_back(entry.group);
      entry.next_ns = now_ns + kTickNs;  // until it says itself
    }
    next_ns = std::min(next_ns, entry.next_ns);
  }
  next_ns_.store(next_ns);
  return true;
}

void Agent::Schedule(const Watched* group, int64_t next_ns) {
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.group.get() != group) continue;
    entry.next_ns = next_ns;
    next_ns_.store(std::min(next_ns, next_ns_.load()));
  }
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
  if (!TakeDue(now_ns, all) && all) Hurry();
  for (const std::shared_ptr<Watched>& group : due_) {
    const int64_t next_ns = group->Look(now_ns);
    if (next_ns < now_ns + kTickNs) Schedule(group.get(), next_ns);
  }
  due_.clear();
  stepping_.store(false, std::memory_order_release);
  return NextNs(now_ns);
}

}  // namespace weft
