#include "comm/group/progress.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "base/wait.h"
#include "comm/group/fork.h"
#include "comm/group/progress_signal.h"
#include "comm/node/node_group.h"

namespace weft {
namespace {

using Groups = std::vector<std::shared_ptr<NodeGroup>>;

// Most urgent first; groups of equal priority keep their order.
void SortByPriority(Groups& groups) {
  if (groups.size() < 2) return;
  std::vector<std::pair<int32_t, std::shared_ptr<NodeGroup>>> ranked;
  ranked.reserve(groups.size());
  for (auto& group : groups)
    ranked.emplace_back(group->QueuedPriority(), std::move(group));
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  groups.clear();
  for (auto& [priority, group] : ranked)
    groups.push_back(std::move(group));
}

// The groups with queued operations, and the thread. All state is guarded by the mutex, which nobody
// holds while a group is stepped.
class Progress {
 public:
  void AddUser() {
    MutexLock lock(mutex_);
    ++users_;
  }

  void RemoveUser(const NodeGroup* group) {
    std::thread ended;
    Groups dropped;  // released without the mutex
    {
      MutexLock lock(mutex_);
      Drop(group, &dropped);
      if (--users_ > 0 || !thread_.joinable()) return;
      *stop_ = true;
      wake_.notify_all();
      ended = std::move(thread_);
    }
    if (ended.get_id() == std::this_thread::get_id()) {
      ended.detach();  // a callback closed the last group: the thread ends when it returns
    } else {
      ended.join();
    }
  }

  void Request(std::shared_ptr<NodeGroup> group) {
    MutexLock lock(mutex_);
    if (std::find(active_.begin(), active_.end(), group) != active_.end()) return;
    active_.push_back(std::move(group));
    if (CallerDrivesProgress()) {
      signal_.SetTicking(true);
      return;
    }
    if (!thread_.joinable()) {
      stop_ = std::make_shared<bool>(false);
      thread_ = std::thread([this, stop = stop_] { Loop(*stop); });
    }
    wake_.notify_all();
    // It may be asleep on behalf of another group.
    nap_.word.fetch_add(1, std::memory_order_seq_cst);
    Ring(nap_);
  }

  // The flag of the signal goes down last: who polls has then seen every end before this returns.
  int StepAll() {
    Groups groups;
    {
      MutexLock lock(mutex_);
      groups = active_;
    }
    SortByPriority(groups);
    for (const auto& group : groups) {
      WaitTarget target;
      if (!group->TryStep(&target)) Retire(group);
    }
    int pending = 0;
    {
      MutexLock lock(mutex_);
      for (const auto& group : active_)
        pending += static_cast<int>(group->queued());
    }
    signal_.Drain();
    return pending;
  }

  absl::StatusOr<int> Fd() {
    MutexLock lock(mutex_);
    return signal_.Fd();
  }

  void WorkEnded() { signal_.WorkEnded(); }

 private:
  // `stop` is this thread's own, under the mutex: one that is still in a callback when the next is
  // started must end all the same.
  void Loop(const bool& stop) {
    Groups groups;
    while (true) {
      groups.clear();  // before sleeping: the last reference may be ours
      {
        MutexLock lock(mutex_);
        while (active_.empty() && !stop)
          lock.Wait(wake_);
        if (stop) return;
        groups = active_;
      }
      SortByPriority(groups);
      WaitTarget target;
      NodeGroup* waiting = nullptr;
      for (const auto& group : groups) {
        WaitTarget wants;
        if (!group->TryStep(&wants)) {
          Retire(group);
        } else if (waiting == nullptr || target.word == nullptr) {
          waiting = group.get();
          target = wants;
        }
      }
      if (waiting != nullptr) Nap(*waiting, target, groups.size() > 1);
    }
  }

  // Sleeps until the group may go on; with several of them for a fixed short time, as the thread can
  // listen to one bell only.
  void Nap(NodeGroup& group, const WaitTarget& target, bool several) {
    static const std::atomic<uint32_t> never{0};
    const bool listen = !several && !target.others && target.word != nullptr;
    Deadline patience{listen ? 2'000'000 : 200'000};
    if (listen) {
      group.WaitForTurn(target, patience, never);
    } else {
      const auto no = [] {
        return false;
      };
      WaitUntil(nap_, WaitPolicy{.spins = 0, .yields = 4}, patience, no, no);
    }
  }

  // Drops a group that has nothing queued, unless it was requested again meanwhile.
  void Retire(const std::shared_ptr<NodeGroup>& group) {
    Groups dropped;
    MutexLock lock(mutex_);
    if (!group->has_queued()) Drop(group.get(), &dropped);
  }

  void Drop(const NodeGroup* group, Groups* dropped) WEFT_REQUIRES(mutex_) {
    const auto found = std::find_if(active_.begin(), active_.end(),
                                    [group](const auto& known) { return known.get() == group; });
    if (found == active_.end()) return;
    dropped->push_back(std::move(*found));
    active_.erase(found);
    if (active_.empty()) signal_.SetTicking(false);
  }

  Mutex mutex_;
  std::condition_variable wake_;
  Groups active_ WEFT_GUARDED_BY(mutex_);
  int users_ WEFT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<bool> stop_ WEFT_GUARDED_BY(mutex_);  // what it points to as well
  std::thread thread_ WEFT_GUARDED_BY(mutex_);
  Bell nap_;
  ProgressSignal signal_;  // Fd and SetTicking under the mutex
};

struct Owned {
  uint32_t fork_generation = 0;
  const Owned* parents = nullptr;  // keeps the parent's reachable, for those who look for leaks
  Progress progress;
};

// Never destroyed: groups may outlive static destructors. A forked child makes its own and leaves the
// parent's, whose mutex may be held for ever, alone.
Progress& Instance() {
  static std::atomic<Owned*> current{nullptr};
  const uint32_t generation = ForkGeneration();
  Owned* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->fork_generation == generation) return known->progress;
  auto* const made = new Owned{.fork_generation = generation, .parents = known, .progress = {}};
  if (current.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
    return made->progress;
  }
  delete made;  // another thread was quicker
  return known->progress;
}

}  // namespace

void AddProgressUser() {
  Instance().AddUser();
}

void RemoveProgressUser(const NodeGroup* group) {
  Instance().RemoveUser(group);
}

void RequestProgress(std::shared_ptr<NodeGroup> group) {
  Instance().Request(std::move(group));
}

bool CallerDrivesProgress() {
  return GetOptions().progress == "caller";
}

int ProgressAll() {
  return Instance().StepAll();
}

absl::StatusOr<int> ProgressFd() {
  return Instance().Fd();
}

void NoteWorkEnded() {
  Instance().WorkEnded();
}

}  // namespace weft
