// Who of the peers lives, and who is waited for too long: one state machine per process, which looks after all of its groups,
// whether or not anybody waits in them.
//
//   Agent agent(clock, set);
//   agent.Add(group);                                  // looked after from now on
//   while (...) {
//     const int64_t next_ns = agent.Step(event);       // event: a descriptor of the set has become ready
//     event = set.Sleep(heard, next_ns);
//   }
//   agent.Remove(group.get());
//
// A death is a fact of the kernel's: the pidfd of a process becomes readable. So an idle process sleeps, and all groups that
// hold a rank of the dead process end within the time that a thread takes to wake up. What is no event, as a rank that is
// stopped or a wait that lasts, is looked at from time to time.
//
// Groups know nothing of each other. What needs all of them is here: a process that waits in one shows that in all, so that a cycle
// of processes that wait for each other in different groups is found by each of them (wait_cycle.h), and reported.
//
// It is moved by whoever moves operations: the process's progress thread or, with WEFT_PROGRESS=caller, waits and weft_progress.
// Groups are called with no lock held, and in no order that another group knows of.
// Thread-safety: all members, any thread; Steps of several threads take turns, and who comes second returns at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/poll_set.h"
#include "base/seams.h"
#include "comm/agent/watched.h"

namespace weft {

class Agent {
 public:
  // Between two looks at groups of which nothing is known to have happened. A wake-up takes some 10 us.
  static constexpr int64_t kTickNs = 250'000'000;
  // How often a cycle of waits must be seen unchanged, before it is reported, and how long: groups that wait are looked at each 100 ms, and what a
  // process shows may be as old. Events of other islands make looks come close together. So often
  // each of the others must have shown its wait again since the cycle was first seen.
  static constexpr int kCycleLooks = 3;
  static constexpr int64_t kCycleNs = 250'000'000;
  static constexpr uint32_t kCycleShows = 2;

  // Both outlive the agent. Without a descriptor in `set`, because it is not open or the system refuses, deaths are found by
  // the ticks.
  Agent(Clock& clock, PollSet& set) : clock_(clock), set_(set) {}

  // Nothing happens to the caller's own group before this returns.
  void Add(std::shared_ptr<Watched> group);

  // Returns what may have been the last reference to the group, to be released with no lock held. A Look() at it may still be
  // under way: the group sees to that.
  std::shared_ptr<Watched> Remove(const Watched* group);

  // Somebody knows of something that groups should look at: the next Step() does.
  void Hurry() { hurried_.store(true, std::memory_order_release); }

  // Looks at all groups if there was an event, or at those whose time has come. Returns when to be called again at the latest.
  int64_t Step(bool event);

 private:
  struct Entry {
    std::shared_ptr<Watched> group;
    int64_t next_ns = 0;
    uint64_t step = 0;  // in which it was looked at last
  };

  int64_t NextNs(int64_t now_ns) const;
  std::shared_ptr<Watched> TakeDue(int64_t now_ns, bool all);
  void Arm(const Watched& group);
  void FindNext();
  void Schedule(const Watched* group, int64_t next_ns);
  void LookAtWaits();
  void LookForCycle(const std::vector<std::shared_ptr<Watched>>& groups);
  bool IsSeenAgain(const std::vector<ProcessWait>& cycle) const;
  void Hold(int lifeline) WEFT_REQUIRES(mutex_);
  void LetGo(int lifeline) WEFT_REQUIRES(mutex_);

  Clock& clock_;
  PollSet& set_;
  std::atomic<bool> hurried_{false};
  std::atomic<bool> stepping_{false};
  // Of whoever steps.
  uint64_t step_ = 0;                 // counts them
  std::vector<PollItem> items_;       // of one group
  std::optional<ProcessWait> shown_;  // to the processes of all groups
  std::vector<ProcessWait> cycle_;    // the last one, as it was first seen
  int cycle_looks_ = 0;               // -1: reported
  int64_t cycle_since_ns_ = 0;
  std::atomic<int64_t> next_ns_{INT64_MAX};  // the earliest of all
  Mutex mutex_;
  std::vector<Entry> entries_ WEFT_GUARDED_BY(mutex_);
  std::map<int, int> lifelines_ WEFT_GUARDED_BY(mutex_);  // how many groups have each
};

}  // namespace weft
