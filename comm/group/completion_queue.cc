// A waiter does two things that one thread cannot do at once: it waits for what peers publish, as whoever moves operations
// must, and for what other threads tell the queue. So it moves for a short time, which is all that most operations take, and
// then leaves that to the progress thread and sleeps on the queue alone. Where callers drive progress it does both in turns.
//
// The mutex guards lists and is held for a few instructions. Nothing is released under it, as the last reference to a work may
// close a group, whose works then end and are delivered here.
#include "comm/group/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "base/interrupt.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/group/progress.h"

namespace weft {
namespace {

constexpr int64_t kForeverNs = INT64_MAX / 4;
// How long a waiter moves one work, or all groups, before it looks at what it has been told: as in batches.
constexpr int64_t kMoveNs = 1'000'000;
// Looks at works of several groups, each with a yield, before they are left to the progress thread.
constexpr uint32_t kEagerRounds = 50;

}  // namespace

void CompletionQueue::EntryList::Append(Entry* entry) {
  entry->before = last;
  entry->next = nullptr;
  (last == nullptr ? first : last->next) = entry;
  last = entry;
}

void CompletionQueue::EntryList::Remove(Entry* entry) {
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): it takes a first entry for one with another before it
  (entry->before == nullptr ? first : entry->before->next) = entry->next;
  (entry->next == nullptr ? last : entry->next->before) = entry->before;
}

CompletionQueue::CompletionQueue(int64_t idle_timeout_ns)
    : idle_timeout_ns_(TimeoutOrDefault(idle_timeout_ns)), caller_drives_(CallerDrivesProgress()) {}

CompletionQueue::~CompletionQueue() {
  Close();
}

std::vector<CompletionQueue::Lane>::iterator CompletionQueue::LaneOf(const Work& work) {
  return std::find_if(
      lanes_.begin(), lanes_.end(),
      [moved_with = work.moved_with()](const Lane& lane) { return lane.moved_with == moved_with; });
}

void CompletionQueue::AddUnderWay(Entry* entry) {
  auto lane = LaneOf(*entry->work);
  if (lane == lanes_.end()) {
    lane = lanes_.insert(lane, {.moved_with = entry->work->moved_with(), .entries = {}});
  }
  lane->entries.Append(entry);
  ++under_way_count_;
}

void CompletionQueue::RemoveUnderWay(Entry* entry) {
  const auto lane = LaneOf(*entry->work);
  lane->entries.Remove(entry);
  if (lane->entries.first == nullptr) {
    *lane = lanes_.back();
    lanes_.pop_back();
  }
  --under_way_count_;
}

bool CompletionQueue::Add(const WorkRef& work, uint64_t token) {
  auto made = std::make_unique<Entry>();
  made->queue = shared_from_this();
  made->work = work;
  made->completion.token = token;
  {
    MutexLock lock(mutex_);
    AddUnderWay(made.get());
  }
  Entry* const entry = made.release();  // it may be delivered, taken and gone from here on
  const bool told = work->OnComplete(
      [entry](const absl::Status& status) { entry->queue->Deliver(entry, status); });
  if (!told) {
    {
      MutexLock lock(mutex_);
      RemoveUnderWay(entry);
    }
    delete entry;
    return false;
  }
  if (work->ended()) return true;
  // A program that polls the descriptor waits for nothing else.
  if (has_fd_.load(std::memory_order_seq_cst) && !caller_drives_) work->LeaveToProgress();
  Stir();
  return true;
}

// The last reference to the queue, or to the work, may be the entry's.
void CompletionQueue::Deliver(Entry* entry, const absl::Status& status) {
  const std::shared_ptr<CompletionQueue> self = std::move(entry->queue);
  WorkRef work;
  std::unique_ptr<Entry> dropped;
  {
    MutexLock lock(mutex_);
    RemoveUnderWay(entry);
    work = std::move(entry->work);
    if (closed_) {
      dropped.reset(entry);
    } else {
      entry->completion.status = status;
      ended_.Append(entry);
      const uint64_t one = 1;
      if (++ended_count_ == 1 && fd_.valid()) (void)!write(fd_.get(), &one, sizeof(one));
    }
  }
  Stir();
}

bool CompletionQueue::TakeEnded(size_t capacity, std::vector<Completion>* taken) {
  if (ended_count_ == 0) return false;
  const size_t count = std::min(capacity, ended_count_);
  taken->reserve(count);  // here, so that none is lost for lack of memory
  for (size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): as in Remove
    const std::unique_ptr<Entry> entry(ended_.first);
    ended_.Remove(entry.get());
    taken->push_back(std::move(entry->completion));
  }
  ended_count_ -= count;
  uint64_t written = 0;
  if (ended_count_ == 0 && fd_.valid()) (void)!read(fd_.get(), &written, sizeof(written));
  return true;
}

void CompletionQueue::AppendFronts(Fronts* fronts) {
  const size_t count = std::min(lanes_.size(), Fronts::kMax);
  for (size_t i = 0; i < count; ++i)
    fronts->Add(lanes_[(first_lane_ + i) % lanes_.size()].entries.first->work);
  first_lane_ = count < lanes_.size() ? (first_lane_ + count) % lanes_.size() : 0;
}

CompletionQueue::Outcome CompletionQueue::Look(bool may_be_woken, size_t capacity,
                                               std::vector<Completion>* taken, Fronts* fronts) {
  MutexLock lock(mutex_);
  if (closed_) return Outcome::kClosed;
  if (TakeEnded(capacity, taken)) return Outcome::kTaken;
  if (may_be_woken && wakes_ > 0) {
    --wakes_;
    return Outcome::kWoken;
  }
  AppendFronts(fronts);
  return Outcome::kNothing;
}

CompletionQueue::Outcome CompletionQueue::Wait(int64_t timeout_ns, size_t capacity,
                                               std::vector<Completion>* taken) {
  taken->clear();
  Deadline patience{timeout_ns > 0 ? timeout_ns : kForeverNs};
  Deadline idle{idle_timeout_ns_};
  uint32_t seen = 0;
  for (uint32_t round = 0;; ++round) {
    if (!origin_.here()) return Outcome::kForked;
    const uint32_t stirs = stirs_.load(std::memory_order_seq_cst);
    if (std::exchange(seen, stirs) != stirs) round = 0;
    Fronts fronts;
    const Outcome outcome = Look(true, capacity, taken, &fronts);
    if (outcome != Outcome::kNothing) return outcome;
    if (round > 0 && Interrupted()) return Outcome::kInterrupted;
    const int64_t now_ns = MonotonicNs();
    if (patience.Passed(now_ns)) return Outcome::kNothing;
    int64_t end_ns = patience.at_ns;
    if (fronts.works().empty()) {
      if (idle.Passed(now_ns)) return Outcome::kNothing;
      end_ns = std::min(end_ns, idle.at_ns);
    } else {
      idle = Deadline{idle_timeout_ns_};
    }
    MoveOrSleep(fronts.works(), seen, round, UntilInterruptNs(end_ns - now_ns));
  }
}

CompletionQueue::Outcome CompletionQueue::Poll(size_t capacity, std::vector<Completion>* taken) {
  taken->clear();
  for (const bool moved : {false, true}) {
    if (!origin_.here()) return Outcome::kForked;
    Fronts fronts;
    const Outcome outcome = Look(false, capacity, taken, &fronts);
    if (outcome != Outcome::kNothing) return outcome;
    if (!moved) Move(fronts.works());
  }
  return Outcome::kNothing;
}

void CompletionQueue::Move(std::span<const WorkRef> fronts) const {
  if (caller_drives_ && !fronts.empty()) return StepAllGroups();
  for (const WorkRef& work : fronts)
    (void)work->Test();
}

void CompletionQueue::MoveOrSleep(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round,
                                  int64_t left_ns) {
  if (fronts.empty()) return SleepUnlessStirred(seen, left_ns);
  if (caller_drives_) return MoveAllGroups(fronts, seen, round, left_ns);
  if (MoveForAWhile(fronts, seen, round, left_ns)) return;
  for (const WorkRef& work : fronts)
    work->LeaveToProgress();
  SleepUnlessStirred(seen, left_ns);
}

// One work after the other is waited for, so that each is moved without a pause for some of the time.
void CompletionQueue::MoveAllGroups(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round,
                                    int64_t left_ns) {
  if (round > 0) StepAllGroups();
  if (stirs_.load(std::memory_order_seq_cst) != seen) return;
  const WorkRef& work = fronts[round % fronts.size()];
  const int64_t slice_ns = std::min(kMoveNs, left_ns);
  if (work->ended()) return SleepUnlessStirred(seen, slice_ns);  // another thread will say so
  (void)work->Wait(slice_ns);
}

// False if it has done that long enough.
bool CompletionQueue::MoveForAWhile(std::span<const WorkRef> fronts, uint32_t seen, uint32_t round,
                                    int64_t left_ns) {
  if (fronts.size() == 1 && !fronts[0]->ended()) {
    if (round > 0) return false;
    (void)fronts[0]->Wait(std::min(kMoveNs, left_ns));
    return true;
  }
  if (round >= kEagerRounds) return false;
  Move(fronts);
  SleepUnlessStirred(seen, 0);
  return true;
}

void CompletionQueue::SleepUnlessStirred(uint32_t seen, int64_t timeout_ns) {
  Deadline patience{timeout_ns};
  const auto stirred = [&] {
    return stirs_.load(std::memory_order_seq_cst) != seen;
  };
  WaitUntil(events_, WaitPolicy{.spins = 0, .yields = 1}, patience, stirred, [] { return false; });
}

void CompletionQueue::Stir() {
  stirs_.fetch_add(1, std::memory_order_seq_cst);
  NotifyAll(events_);
}

void CompletionQueue::Wake() {
  {
    MutexLock lock(mutex_);
    ++wakes_;
  }
  Stir();
}

size_t CompletionQueue::pending() const {
  MutexLock lock(mutex_);
  return under_way_count_ + ended_count_;
}

absl::StatusOr<int> CompletionQueue::Fd() {
  Fronts fronts;
  int fd = -1;
  {
    MutexLock lock(mutex_);
    if (!fd_.valid()) {
      UniqueFd made = MakeEvent(ended_count_ > 0 ? 1 : 0);
      if (!made.valid()) {
        return SystemError(errno, "making the descriptor of a completion queue: eventfd");
      }
      fd_ = std::move(made);
      has_fd_.store(true, std::memory_order_seq_cst);
      AppendFronts(&fronts);
    }
    fd = fd_.get();
  }
  if (!caller_drives_) {
    for (const WorkRef& work : fronts.works())
      work->LeaveToProgress();
  }
  return fd;
}

void CompletionQueue::Close() {
  EntryList dropped;
  UniqueFd fd;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    dropped = std::exchange(ended_, {});
    ended_count_ = 0;
    fd = std::move(fd_);
  }
  Stir();
  while (Entry* const entry = dropped.first) {
    dropped.Remove(entry);
    delete entry;
  }
}

}  // namespace weft
