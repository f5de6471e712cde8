// To wake a thread takes a CPU from the caller or its peer for longer than a small operation lasts, so most of this
// source is about not waking it: it looks at groups that have asked, ever less often, and helps those only that nobody
// else moves. All of its state is under one mutex that nobody holds while a group is stepped, because a step runs
// callbacks, and these may do anything: close the last group and so end the thread that they are running on, or fork and
// return in the child. So the thread has a share of its own in what it sleeps on, and another one may have begun meanwhile.
#include "comm/group/progress.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/hidden_thread.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/options.h"
#include "base/poll_set.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/agent/agent.h"
#include "comm/group/fork.h"
#include "comm/group/of_this_process.h"
#include "comm/group/progress_signal.h"
#include "comm/group/stepped.h"

namespace weft {
namespace {

using Groups = std::vector<std::shared_ptr<Stepped>>;

// Between two looks at groups that need no help, doubling from one to the other. A wake-up takes
// 5 to 10 us of a CPU that a caller may be using.
constexpr int64_t kLookNs = 50'000;
constexpr int64_t kSeldomNs = 1'000'000;
// Between two looks at descriptors of a thread that helps, and so sleeps on other things.
constexpr int64_t kDescriptorsNs = 5'000'000;

// Most urgent first; groups of equal priority keep their order.
void SortByPriority(Groups& groups) {
  if (groups.size() < 2) return;
  std::vector<std::pair<int32_t, std::shared_ptr<Stepped>>> ranked;
  try {
    ranked.reserve(groups.size());
  } catch (const std::bad_alloc&) {
    return;  // out of memory: in any order
  }
  for (auto& group : groups)
    ranked.emplace_back(group->QueuedPriority(), std::move(group));
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  groups.clear();
  for (auto& [priority, group] : ranked)
    groups.push_back(std::move(group));
}

// `to` is empty, and stays so while there is no memory: the thread looks again before long.
void Copy(const Groups& from, Groups& to) {
  try {
    to = from;
  } catch (const std::bad_alloc&) {
  }
}

// What groups share while there are any, and what the thread works on: it keeps it until it has ended, which may be later.
struct Engine {
  PollSet set;
  Agent agent{*SystemSeams().clock, set};
  bool stop = false;  // under the mutex of Progress
};

// The groups with queued operations, and the thread. All state is guarded by the mutex, which nobody
// holds while a group is stepped.
class Progress {
 public:
  void AddUser() {
    MutexLock lock(mutex_);
    active_.reserve(static_cast<size_t>(users_) + 1);  // Ask() must not fail
    if (engine_ == nullptr) engine_ = std::make_shared<Engine>();
    ++users_;
  }

  absl::Status Prepare() {
    if (CallerDrivesProgress()) return absl::OkStatus();
    MutexLock lock(mutex_);
    if (thread_.joinable()) return absl::OkStatus();
    if (engine_ == nullptr) return MakeError(WEFT_INVALID_USAGE, "the group was closed");
    WEFT_RETURN_IF_ERROR(engine_->set.Open());
    absl::StatusOr<std::thread> started =
        StartHiddenThread("weft-progress", [this, engine = engine_] { Loop(*engine); });
    if (started.ok()) {
      thread_ = *std::move(started);
      return absl::OkStatus();
    }
    return MakeError(
        WEFT_SYSTEM_ERROR,
        StrCat("starting the thread that moves operations: ", FromAbsl(started.status().message()),
               "; no operation was started. Raise the limit on processes (ulimit -u, "
               "or pids.max of the container), or set WEFT_PROGRESS=caller"));
  }

  void RemoveUser(const Stepped* group) {
    std::thread ended;
    std::shared_ptr<Stepped> dropped;  // released without the mutex
    std::shared_ptr<Engine> engine;
    {
      MutexLock lock(mutex_);
      dropped = Drop(group);
      if (--users_ > 0) return;
      engine = std::exchange(engine_, nullptr);
      signal_.Forget(engine->set.fd());
      if (!thread_.joinable()) return;
      engine->stop = true;
      engine->set.Ring();
      ended = std::move(thread_);
    }
    if (ended.get_id() == std::this_thread::get_id()) {
      ended.detach();  // a callback closed the last group: the thread ends when it returns
    } else {
      ended.join();
    }
  }

  // Without a thread deaths are found by those who wait in the group, and by weft_progress.
  void Watch(std::shared_ptr<Watched> group) {
    const absl::Status prepared = Prepare();
    if (!prepared.ok()) LogInfo("idle groups do not learn of ranks that end: ", prepared.message());
    std::shared_ptr<Engine> engine = ShareEngine();
    if (CallerDrivesProgress()) {
      MutexLock lock(mutex_);
      if (engine->set.Open().ok()) signal_.Include(engine->set.fd());
    }
    engine->agent.Add(std::move(group));
    engine->set.Ring();  // it may be asleep for longer
  }

  void Unwatch(const Watched* group) {
    const std::shared_ptr<Engine> engine = ShareEngine();
    const std::shared_ptr<Watched> last = engine->agent.Remove(group);
  }

  void LookAfterGroups() {
    if (!CallerDrivesProgress()) return;  // the thread does
    const std::shared_ptr<Engine> engine = ShareEngine();
    if (engine != nullptr) engine->agent.Step(engine->set.open() && engine->set.Take());
  }

  void LookSoon() {
    const std::shared_ptr<Engine> engine = ShareEngine();
    if (engine == nullptr) return;
    engine->agent.Hurry();
    engine->set.Ring();
  }

  void LookNow() {
    const std::shared_ptr<Engine> engine = ShareEngine();
    if (engine != nullptr) engine->agent.Step(true);
  }

  void Ask(std::shared_ptr<Stepped> group, Asking asking) {
    MutexLock lock(mutex_);
    const bool known = std::find(active_.begin(), active_.end(), group) != active_.end();
    if (!known) {
      group->SetAskedForProgress(true);
      active_.push_back(std::move(group));
    }
    if (CallerDrivesProgress()) {
      signal_.SetTicking(true);
      return;
    }
    // It may be asleep on behalf of another group, or until its next look.
    if (!known || asking == Asking::kNow) engine_->set.Ring();
  }

  void StepGroups() {
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
  }

  // The flag of the signal goes down last: who polls has then seen every end before this returns.
  int StepAll() {
    LookAfterGroups();
    StepGroups();
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
  std::shared_ptr<Engine> ShareEngine() {
    MutexLock lock(mutex_);
    return engine_;
  }

  // `engine` is this thread's own: one that is still in a callback when the next is started must end all the same.
  void Loop(Engine& engine) {
    Groups groups;
    int64_t pause_ns = kLookNs;
    bool event = false;
    while (true) {
      groups.clear();  // before sleeping: the last reference may be ours
      const uint32_t heard = engine.set.rings();
      const int64_t agent_ns = engine.agent.Step(event);
      if (!origin_.here()) return;  // a group's end has forked, and this is the child
      bool idle = true;
      {
        MutexLock lock(mutex_);
        if (engine.stop) return;
        idle = active_.empty();
        Copy(active_, groups);
      }
      if (idle) {
        pause_ns = kLookNs;
        event = engine.set.Sleep(heard, agent_ns);
        continue;
      }
      const Help help = HelpAll(groups);
      if (!origin_.here()) return;  // a callback has forked, and this is the child
      if (help.groups > 0) {
        pause_ns = kLookNs;
        event = NapWhileHelping(engine, help, groups.size() > 1, heard);
      } else {
        groups.clear();
        event = engine.set.Sleep(heard, std::min(MonotonicNs() + pause_ns, agent_ns));
        pause_ns = std::min(2 * pause_ns, kSeldomNs);
      }
    }
  }

  // How many groups need help and go on needing it, and what one of them waits for.
  struct Help {
    int groups = 0;
    Stepped* waiting = nullptr;
    WaitTarget target;
  };

  // Steps who needs it.
  Help HelpAll(Groups& groups) {
    Help help;
    SortByPriority(groups);
    for (const auto& group : groups) {
      const Stepped::Attendance attendance = group->Look();
      if (attendance == Stepped::Attendance::kIdle) Retire(group);
      if (attendance != Stepped::Attendance::kNeeded) continue;
      WaitTarget wants;
      if (!group->Help(&wants)) continue;
      ++help.groups;
      if (help.waiting != nullptr && help.target.word != nullptr) continue;
      help.waiting = group.get();
      help.target = wants;
    }
    return help;
  }

  // Sleeps until the group may go on; with several of them for a fixed short time, as the thread can
  // listen to one EventCount only. True if a descriptor has become readable.
  bool NapWhileHelping(Engine& engine, const Help& help, bool several, uint32_t heard) {
    if (several || help.target.others || help.target.word == nullptr) {
      return engine.set.Sleep(heard, MonotonicNs() + 200'000);
    }
    Deadline patience{2'000'000};
    help.waiting->WaitFor(help.target, patience);
    const int64_t now_ns = MonotonicNs();
    if (now_ns - looked_ns_ < kDescriptorsNs) return false;
    looked_ns_ = now_ns;
    return engine.set.Take();
  }

  // Drops a group that has nothing queued, unless it was requested again meanwhile.
  void Retire(const std::shared_ptr<Stepped>& group) {
    std::shared_ptr<Stepped> dropped;
    MutexLock lock(mutex_);
    group->SetAskedForProgress(false);
    if (group->queued() > 0) {
      group->SetAskedForProgress(true);
    } else {
      dropped = Drop(group.get());
    }
  }

  std::shared_ptr<Stepped> Drop(const Stepped* group) WEFT_REQUIRES(mutex_) {
    const auto found = std::find_if(active_.begin(), active_.end(),
                                    [group](const auto& known) { return known.get() == group; });
    if (found == active_.end()) return nullptr;
    std::shared_ptr<Stepped> dropped = std::move(*found);
    active_.erase(found);
    if (active_.empty()) signal_.SetTicking(false);
    return dropped;
  }

  const Origin origin_;
  Mutex mutex_;
  Groups active_ WEFT_GUARDED_BY(mutex_);
  int users_ WEFT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Engine> engine_ WEFT_GUARDED_BY(mutex_);  // while there are users
  std::thread thread_ WEFT_GUARDED_BY(mutex_);
  int64_t looked_ns_ = 0;  // the thread's
  ProgressSignal signal_;  // Fd, SetTicking, Include and Forget under the mutex
};

Progress& Instance() {
  return OfThisProcess<Progress>();
}

}  // namespace

void AddProgressUser() {
  Instance().AddUser();
}

void RemoveProgressUser(const Stepped* group) {
  Instance().RemoveUser(group);
}

void WatchGroup(std::shared_ptr<Watched> group) {
  Instance().Watch(std::move(group));
}

void UnwatchGroup(const Watched* group) {
  Instance().Unwatch(group);
}

void LookAfterGroups() {
  Instance().LookAfterGroups();
}

void LookSoon() {
  Instance().LookSoon();
}

void LookNow() {
  Instance().LookNow();
}

absl::Status PrepareProgress() {
  return Instance().Prepare();
}

void AskForProgress(std::shared_ptr<Stepped> group, Asking asking) {
  Instance().Ask(std::move(group), asking);
}

bool CallerDrivesProgress() {
  return GetOptions().progress == "caller";
}

int ProgressAll() {
  return Instance().StepAll();
}

void StepAllGroups() {
  Instance().StepGroups();
}

absl::StatusOr<int> ProgressFd() {
  return Instance().Fd();
}

void NoteWorkEnded() {
  Instance().WorkEnded();
}

}  // namespace weft
