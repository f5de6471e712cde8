#include "comm/group/progress.h"

#include <condition_variable>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "base/wait.h"
#include "comm/node/node_group.h"

namespace weft {
namespace {

// The thread and what it works on. All state is guarded by the mutex; the thread holds it only
// between rounds.
class ProgressThread {
 public:
  void AddUser() {
    MutexLock lock(mutex_);
    ++users_;
  }

  void RemoveUser() {
    std::thread ended;
    {
      MutexLock lock(mutex_);
      if (--users_ > 0 || !thread_.joinable()) return;
      stop_ = true;
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
    for (const auto& known : active_) {
      if (known == group) return;
    }
    active_.push_back(std::move(group));
    if (!thread_.joinable()) {
      stop_ = false;
      thread_ = std::thread([this] { Loop(); });
    }
    wake_.notify_all();
    // It may be asleep on behalf of another group.
    nap_.word.fetch_add(1, std::memory_order_seq_cst);
    Ring(nap_);
  }

 private:
  void Loop() {
    std::vector<std::shared_ptr<NodeGroup>> groups;
    while (true) {
      groups.clear();  // before sleeping: the last reference may be ours
      {
        MutexLock lock(mutex_);
        while (active_.empty() && !stop_)
          lock.Wait(wake_);
        if (stop_) return;
        groups = active_;
      }
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
    const bool listen = !several && target.word != nullptr;
    Deadline patience{listen ? 2'000'000 : 200'000};
    if (listen) {
      group.WaitForTurn(target, patience, never);
    } else {
      const auto no = [] { return false; };
      WaitUntil(nap_, WaitPolicy{.spins = 0, .yields = 4}, patience, no, no);
    }
  }

  // Drops a group that has nothing queued, unless it was requested again meanwhile.
  void Retire(const std::shared_ptr<NodeGroup>& group) {
    MutexLock lock(mutex_);
    if (group->has_queued()) return;
    std::erase(active_, group);
  }

  Mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<NodeGroup>> active_ WEFT_GUARDED_BY(mutex_);
  int users_ WEFT_GUARDED_BY(mutex_) = 0;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_ WEFT_GUARDED_BY(mutex_);
  Bell nap_;
};

ProgressThread& Instance() {
  static ProgressThread& instance = *new ProgressThread;
  return instance;
}

}  // namespace

void AddProgressUser() {
  Instance().AddUser();
}

void RemoveProgressUser() {
  Instance().RemoveUser();
}

void RequestProgress(std::shared_ptr<NodeGroup> group) {
  if (GetOptions().progress == "caller") return;
  Instance().Request(std::move(group));
}

}  // namespace weft
