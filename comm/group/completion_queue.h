// Where the ends of works are told to threads of the program's own, instead of by callbacks on weft's.
//
//   const auto queue = std::make_shared<CompletionQueue>();
//   if (!queue->Add(work, token)) ...                     // it has a callback already
//   std::vector<Completion> taken;
//   queue->Wait(timeout_ns, 64, &taken);                  // kTaken: the first 64 that have ended, or fewer
//   queue->Close();
//
// Who waits moves what it waits for, as Work::Wait does, so that operations end on the thread that wants to know. When that
// takes long, the progress thread takes over, and the waiter sleeps until it is told; where there is none, the waiter goes on,
// and moves the operations of all groups, as a peer may wait for them in another order.
//
// A work that was added takes one allocation, and keeps the queue alive until it has ended; a queue that was closed drops what
// ends afterwards.
// Thread-safety: all members, any thread, several at once. No lock of the queue is held while a work is moved.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/fork.h"
#include "comm/group/work.h"

namespace weft {

// The end of a work.
struct Completion {
  uint64_t token = 0;  // as it was given to Add()
  absl::Status status;
};

class CompletionQueue : public std::enable_shared_from_this<CompletionQueue> {
 public:
  // idle_timeout_ns: how long a wait without a timeout lasts while there is nothing to wait for; 0: the option timeout_s.
  explicit CompletionQueue(int64_t idle_timeout_ns = 0);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // The end of `work` is told here, at once if it has ended. False if it has a callback, or a queue, already.
  bool Add(const WorkRef& work, uint64_t token);

  // kTaken: *taken has at least one completion and at most `capacity`, in the order of the ends. kWoken: by Wake().
  // kNothing: nothing has ended until now. kForked: this is a child that was made by a callback.
  // kInterrupted: by this thread's check.
  enum class Outcome : uint8_t { kTaken, kWoken, kNothing, kClosed, kForked, kInterrupted };

  // Waits for a completion. timeout_ns > 0: at most so long. 0: as long as there are works under way, which have deadlines of
  // their own, and idle_timeout_ns while there are none.
  Outcome Wait(int64_t timeout_ns, size_t capacity, std::vector<Completion>* taken);

  // Never waits: takes what has ended; if nothing has, moves what has been added and looks again.
  Outcome Poll(size_t capacity, std::vector<Completion>* taken);

  // One Wait(), under way or yet to come, that has no completion to return, returns kWoken.
  void Wake();

  // Works that were added and whose completions have not been taken.
  size_t pending() const;

  // An eventfd that is readable while there are completions to take; made when first asked for, closed by Close().
  // SYSTEM_ERROR when none can be had.
  absl::StatusOr<int> Fd();

  // Drops what has not been taken, and ends all waits.
  void Close();

 private:
  // A work that was added: in a lane while it is under way, then among those that have ended, until it is taken.
  struct Entry {
    std::shared_ptr<CompletionQueue> queue;  // nullptr when it has ended, as `work`
    WorkRef work;
    Completion completion;
    Entry* before = nullptr;
    Entry* next = nullptr;
  };

  // In the order in which they came. Does not own them.
  struct EntryList {
    Entry* first = nullptr;
    Entry* last = nullptr;

    void Append(Entry* entry);
    void Remove(Entry* entry);
  };

  // Works under way that are moved together: whoever moves the oldest moves all.
  struct Lane {
    const void* moved_with;
    EntryList entries;
  };

  // The oldest works of the lanes, or of some of them if there are many.
  class Fronts {
   public:
    void Add(WorkRef work) { works_[count_++] = std::move(work); }

    static constexpr size_t kMax = 8;

    std::span<const WorkRef> works() const { return {works_.data(), count_}; }

   private:
    std::array<WorkRef, kMax> works_;
    size_t count_ = 0;
  };

  std::vector<Lane>::iterator LaneOf(const Work& work) WEFT_REQUIRES(mutex_);
  void AddUnderWay(Entry* entry) WEFT_REQUIRES(mutex_);
  void RemoveUnderWay(Entry* entry) WEFT_REQUIRES(mutex_);
  void AppendFronts(Fronts* fronts) WEFT_REQUIRES(mutex_);
  bool TakeEnded(size_t capacity, std::vector<Completion>* taken) WEFT_REQUIRES(mutex_);
  void Deliver(Entry* entry, const absl::Status& status);
  // kNothing: *fronts, which was empty, has what can be moved.
  Outcome Look(bool may_be_woken, size_t capacity, std::vector<Completion>* taken, Fronts* fronts);
  void Move(std::span<const WorkRef> fronts) const;
  // What a waiter does until it looks again. `round` counts the looks since something was told.
  void MoveOrSleep(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round, int64_t left_ns);
  void MoveAllGroups(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round,
                     int64_t left_ns);
  bool MoveForAWhile(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round,
                     int64_t left_ns);
  void SleepUnlessStirred(uint32_t seen, int64_t timeout_ns);
  // Waiters have to look again.
  void Stir();

  const Origin origin_;
  const int64_t idle_timeout_ns_;
  const bool caller_drives_;  // no thread moves what nobody waits for
  EventCount events_;
  std::atomic<uint32_t> stirs_{0};
  std::atomic<bool> has_fd_{false};
  mutable Mutex mutex_;
  std::vector<Lane> lanes_ WEFT_GUARDED_BY(mutex_);  // none is empty
  size_t first_lane_ WEFT_GUARDED_BY(mutex_) = 0;    // of the next fronts, if there are many lanes
  EntryList ended_ WEFT_GUARDED_BY(mutex_);
  size_t under_way_count_ WEFT_GUARDED_BY(mutex_) = 0;
  size_t ended_count_ WEFT_GUARDED_BY(mutex_) = 0;
  uint64_t wakes_ WEFT_GUARDED_BY(mutex_) = 0;
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  UniqueFd fd_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
