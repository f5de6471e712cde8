// One failure is the cause of all others: so the first one that comes is kept, and sets the word that interrupts the other threads.
#include "bindings/c/batch_groups.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <thread>
#include <utility>

#include "weft/batch.h"
#include "weft/group.h"
#include "weft/store.h"

#include "base/hidden_thread.h"
#include "base/interrupt.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/wait.h"
#include "bindings/c/batch.h"
#include "bindings/c/create_group.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"

namespace weft {
namespace {

constexpr int64_t kGiveUpEveryNs = 20'000'000;  // at most so long until a thread sees that it shall

class Makings {
 public:
  explicit Makings(std::vector<GroupMaking> makings)
      : makings_(std::move(makings)), made_(makings_.size()) {
    std::map<const void*, size_t> known;
    for (size_t i = 0; i < makings_.size(); ++i) {
      const void* const lane = makings_[i].lane;
      if (lane == nullptr || known.emplace(lane, lanes_.size()).second) lanes_.emplace_back();
      lanes_[lane == nullptr ? lanes_.size() - 1 : known[lane]].push_back(i);
    }
    running_ = lanes_.size();
  }

  absl::Status Run() {
    std::vector<std::thread> threads;
    for (const std::vector<size_t>& lane : lanes_) {
      absl::StatusOr<std::thread> thread =
          StartHiddenThread("weft-making", [this, &lane] { RunLane(lane); });
      if (!thread.ok()) {
        GiveUp(Annotate(thread.status(), "making a group of a batch: "));
        Leave(lanes_.size() - threads.size());
        break;
      }
      threads.push_back(*std::move(thread));
    }
    AwaitAll();
    for (std::thread& thread : threads)
      thread.join();
    const absl::Status failure = Failure();
    for (size_t i = 0; i < makings_.size(); ++i) {
      if (failure.ok()) *makings_[i].group = made_[i];
      if (!failure.ok() && made_[i] != nullptr) (void)weft_group_destroy(made_[i]);
    }
    return failure;
  }

 private:
  void RunLane(const std::vector<size_t>& lane) {
    SetInterrupt({.check = [](void* self) -> int { return static_cast<Makings*>(self)->given_up_; },
                  .user = this,
                  .every_ns = kGiveUpEveryNs});
    for (const size_t i : lane) {
      absl::StatusOr<weft_group_t> made = absl::UnknownError("not made");
      try {
        made = makings_[i].make();
      } catch (...) {
        made = StatusOfException();
      }
      if (!made.ok()) {
        GiveUp(made.status());
        break;
      }
      made_[i] = *made;
    }
    Leave(1);
  }

  absl::Status Failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

  void GiveUp(const absl::Status& why) {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = why;
    given_up_ = true;
  }

  void Leave(size_t lanes) {
    MutexLock lock(mutex_);
    running_ -= lanes;
    if (running_ == 0) ended_.notify_all();
  }

  // Asks the caller's own check meanwhile.
  void AwaitAll() {
    while (true) {
      {
        MutexLock lock(mutex_);
        if (running_ == 0) return;
        lock.WaitUntil(ended_, MonotonicNs() + kGiveUpEveryNs);
        if (running_ == 0) return;
      }
      if (absl::Status interrupted = CheckInterrupt("weft_batch_end"); !interrupted.ok())
        GiveUp(interrupted);
    }
  }

  std::vector<GroupMaking> makings_;        // constant while threads run
  std::vector<std::vector<size_t>> lanes_;  // constant after construction
  std::vector<weft_group_t> made_;          // each by the thread of its lane
  std::atomic<bool> given_up_{false};
  Mutex mutex_;
  std::condition_variable ended_;
  size_t running_ WEFT_GUARDED_BY(mutex_) = 0;  // lanes
  absl::Status failure_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status MakeTogether(std::vector<GroupMaking> makings) {
  if (makings.empty()) return absl::OkStatus();
  return Makings(std::move(makings)).Run();
}

}  // namespace weft

using weft::Guarded;

weft_result_t weft_batch_group_create_from_id(const weft_unique_id_t* id, int size, int rank,
                                              const weft_group_config_t* config,
                                              weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_batch_group_create_from_id";
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::CheckFromId(kCall, id, size, rank, config, group, &options));
    if (!weft::InBatch()) {
      WEFT_ASSIGN_OR_RETURN(*group, weft::MakeFromId(kCall, *id, size, rank, options));
      return absl::OkStatus();
    }
    return weft::NoteMakingInBatch(
        kCall, {.make = [id = *id, size, rank,
                         options] { return weft::MakeFromId(kCall, id, size, rank, options); },
                .group = group});
  });
}

weft_result_t weft_batch_group_split(weft_group_t parent, int color, int key,
                                     const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_batch_group_split";
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::CheckSplit(kCall, parent, color, config, group, &options));
    const auto from = parent->group.shared();
    if (!weft::InBatch()) {
      WEFT_ASSIGN_OR_RETURN(*group, weft::MakeSplit(*from, color, key, options));
      return absl::OkStatus();
    }
    return weft::NoteMakingInBatch(
        kCall, {.lane = from.get(),
                .make = [from, color, key,
                         options] { return weft::MakeSplit(*from, color, key, options); },
                .group = group});
  });
}
