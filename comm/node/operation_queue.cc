// In the usual case a caller starts an operation and soon waits for it, alone with the group. Then that costs
// little more than a blocking call: the operation announces itself under the issue lock, the waiter acquires
// the step lock once and keeps it while it spins, and neither a mutex nor a clock nor a second thread
// comes into it. So most of this source is about who else might be there: another thread that issues, another one that steps,
// the progress thread, a peer that has gone to sleep.
//
// Order of locks: issue before step, and neither is held when a callback runs or when Progress is asked, whose mutex is
// held while it asks a group whether anything is queued.
#include "comm/node/operation_queue.h"

#include <algorithm>
#include <utility>

#include <sched.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "comm/node/node_group.h"

namespace weft {
namespace {

constexpr int64_t kMessageLookNs =
    200'000;  // between looks at messages, while an operation is waited for

}  // namespace

OperationQueue::OperationQueue(NodeGroup& group, NodeState& state, GroupCounters& counters,
                               MessageEngine& messages, OperationDriver& driver,
                               const WaitPolicy& policy)
    : group_(group),
      state_(state),
      counters_(counters),
      messages_(messages),
      driver_(driver),
      policy_(policy),
      caller_drives_(CallerDrivesProgress()) {}

bool OperationQueue::AcquireIssue(Deadline& deadline) {
  const auto acquire = [&] {
    return issue_.TryAcquire();
  };
  const auto never = [] {
    return false;
  };
  return acquire() || WaitUntil(woken_, policy_, deadline, acquire, never) == WaitResult::kReady;
}

absl::Status OperationQueue::PrepareProgress() {
  if (prepared_for_progress()) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(weft::PrepareProgress());
  prepared_for_progress_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void OperationQueue::AskForProgress(Asking asking) {
  weft::AskForProgress(std::shared_ptr<Stepped>(group_.shared_from_this(), this), asking);
}

void OperationQueue::AskAfterStart(bool background) {
  if (background && queued() > 0) return AskForProgress(Asking::kNow);
  if (!asked_for_progress_.load(std::memory_order_seq_cst) && queued() > 0) {
    AskForProgress(Asking::kSoon);
  }
}

// The operation gets its place, and from here on nothing may fail: all ranks count operations.
void OperationQueue::Begin(NodeWork& work) {
  const uint64_t sequence = counters_.Start();
  work.Begin(sequence, state_);
  state_.recorder.Record(sequence, RecorderTicks(), work.operation().prepared().recorded);
  if (InBackground(work)) background_until_.store(sequence, std::memory_order_relaxed);
  if (caller_drives_) work.deadline().Passed(MonotonicNs());  // nobody may look for long
}

void OperationQueue::Add(const std::shared_ptr<NodeWork>& work) {
  Begin(*work);
  works_.Add(work);
}

OperationQueue::Launched OperationQueue::Launch(const std::shared_ptr<NodeWork>& work) {
  Begin(*work);
  const bool background = InBackground(*work);
  if (background || has_operations()) {
    works_.Add(work);
    return background ? Launched::kInBackground : Launched::kQueued;
  }
  const Operation::Result result = work->operation().Poll();
  if (result != Operation::Result::kBlocked) {
    work->SetStatus(driver_.Conclude(work->operation(), result));
    return Launched::kEnded;
  }
  WakeAfterStart();
  works_.Add(work);
  return Launched::kUnderWay;
}

void OperationQueue::FollowUp(const std::shared_ptr<NodeWork>& work, Launched launched) {
  if (launched == Launched::kEnded) {
    work->End();
    work->RunCallback();
    messages_.RunCallbacks();
    return;
  }
  if (launched == Launched::kQueued) Step(StepFor{.starts = true});
  AskAfterStart(launched == Launched::kInBackground);
}

bool OperationQueue::AcquireOrLeave(const std::shared_ptr<NodeWork>& work, bool* left) {
  left_.fetch_add(1, std::memory_order_seq_cst);
  const bool acquired = issue_.AcquireOrLeave(work, left);
  if (*left) {
    AskAfterStart(false);
  } else {
    left_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return acquired;
}

// Works that were left, in the order of their start; true if there are any.
bool OperationQueue::QueueLeft(NodeWork* left) {
  const bool any = left != nullptr;
  while (left != nullptr) {
    std::shared_ptr<NodeWork> work = std::move(left->self);
    left = left->next;
    Begin(*work);
    works_.Add(std::move(work));
    left_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return any;
}

// Only announces them: what ends now has callbacks, and the caller has called for something else.
void OperationQueue::IssueLeft() {
  do {
    QueueLeft(issue_.TakeLeft());
  } while (!issue_.TryRelease());
  if (step_.TryAcquire()) {
    if (!gate_.closed()) {
      works_.TakeIn();
      // With nothing queued the state is that of whoever holds the issue lock by now.
      if (works_.front() != nullptr) {
        if (!state_.aborted()) IssueAhead();
        WakeAfterStart();
      }
    }
    step_.Release();
  }
  NotifyAll(woken_);
  const uint64_t background_until = background_until_.load(std::memory_order_relaxed);
  AskAfterStart(counters_.ended() < background_until);
}

// The issue lock stays held for ever.
bool OperationQueue::Seal(Deadline& deadline, bool* any) {
  if (!AcquireIssue(deadline)) return false;
  *any = QueueLeft(issue_.Seal());
  return true;
}

int32_t OperationQueue::QueuedPriority() {
  int32_t highest = messages_.has_works() ? 0 : INT32_MIN;
  if (!step_.TryAcquire()) return highest;  // it is being moved
  works_.TakeIn();
  for (NodeWork* work = works_.front(); work != nullptr; work = work->next)
    highest = std::max(highest, work->call().priority);
  step_.Release();
  return highest;
}

OperationQueue::Attendance OperationQueue::Look() {
  const uint64_t ended = counters_.ended();
  const bool moved = seen_ended_.exchange(ended, std::memory_order_relaxed) != ended;
  const bool queued = has_operations();
  const bool was_queued = seen_queued_.exchange(queued, std::memory_order_relaxed);
  if (messages_.has_works()) return Attendance::kNeeded;
  const bool busy = moved || was_queued || left_.load(std::memory_order_relaxed) > 0;
  if (!queued) return busy ? Attendance::kNotNeeded : Attendance::kIdle;
  if (ended < background_until_.load(std::memory_order_relaxed)) return Attendance::kNeeded;
  const bool awaited = waiting_.load(std::memory_order_relaxed) > 0 || stepping();
  return was_queued && !moved && !awaited ? Attendance::kNeeded : Attendance::kNotNeeded;
}

bool OperationQueue::Help(WaitTarget* target) {
  const bool queued = TryStep(target);
  seen_ended_.store(counters_.ended(), std::memory_order_relaxed);
  return queued;
}

// A peer that sleeps at this moment is woken; if one lies down just now, the next step will find it, and
// somebody steps before long. Nobody does where callers drive progress.
void OperationQueue::WakeAfterStart() {
  if (caller_drives_) {
    state_.Wake();
  } else {
    state_.WakeSleepers();
  }
}

// Lets peers know of operations behind the front, so that they find them arrived.
void OperationQueue::IssueAhead() {
  while (NodeWork* const work = works_.unissued()) {
    if (work->operation().Start() == Operation::Result::kBlocked) return;
    works_.NoteIssued();
  }
}

// True if the operation has to wait longer; false if it can go on, or must end: then *result is kFailed.
bool OperationQueue::StaysBlocked(NodeWork& work, const StepFor& purpose,
                                  Operation::Result* result) {
  const Operation& operation = work.operation();
  const WaitTarget target = operation.target();
  const auto through = [&] {
    return purpose.work != nullptr && purpose.work->ended();
  };
  const auto ready = [&] {
    return target.Reached() || works_.has_new() || through();
  };
  if (ProbeBriefly(purpose.probes, ready) && !through()) return false;
  if (purpose.starts) {
    WakeAfterStart();
    return true;
  }
  state_.Wake();
  if (purpose.work != nullptr) {  // this is the thread that waits
    state_.NoteCpu(static_cast<uint32_t>(sched_getcpu()));
    driver_.SpreadOut();
  }
  const int64_t now_ns = MonotonicNs();
  works_.StartDeadlines(now_ns);
  const bool late = work.deadline().Passed(now_ns) && !target.Reached();
  if (!driver_.MustEnd(operation, target, late, work.deadline().timeout_ns)) return true;
  *result = Operation::Result::kFailed;
  return false;
}

bool OperationQueue::StepWorks(StepFor purpose, EndedWorks* ended, WaitTarget* target) {
  while (true) {
    works_.TakeIn();
    NodeWork* const front = works_.front();
    if (front == nullptr) return false;
    Operation& operation = front->operation();
    Operation::Result result = Operation::Result::kFailed;
    if (!state_.aborted()) {
      IssueAhead();
      result = operation.started() ? operation.Poll() : Operation::Result::kBlocked;
    }
    if (result == Operation::Result::kBlocked) {
      if (StaysBlocked(*front, purpose, &result)) {
        *target = operation.target();
        return true;
      }
      if (result == Operation::Result::kBlocked) continue;
    }
    front->SetStatus(driver_.Conclude(operation, result));
    if (front == purpose.work) purpose = StepFor{.starts = true};
    std::shared_ptr<NodeWork> work = works_.PopFront();
    // Close() waits for the step lock and for no thread that has released it.
    work->End();
    ended->Add(std::move(work));
  }
}

WaitTarget OperationQueue::Step(const StepFor& purpose) {
  WaitTarget target;
  EndedWorks ended;
  if (!gate_.here() || !step_.TryAcquire()) return target;
  if (!gate_.closed()) StepWorks(purpose, &ended, &target);
  step_.Release();
  messages_.RunCallbacks();  // of messages that ended under the step lock
  ended.RunCallbacks();
  return target;
}

bool OperationQueue::TryStep(WaitTarget* target) {
  *target = has_operations() ? Step({}) : WaitTarget{};
  StepMessages(target);
  return queued() > 0;
}

void OperationQueue::StepMessages(WaitTarget* target) {
  WaitTarget of_messages;
  if (!messages_.TryStep(&of_messages)) return;
  target->others = true;
  if (!has_operations()) *target = of_messages;
}

bool OperationQueue::Await(const NodeWork& work, int64_t timeout_ns) {
  Deadline patience{timeout_ns > 0 ? timeout_ns : INT64_MAX / 4};
  if (timeout_ns > 0) patience.Passed(MonotonicNs());
  const uint32_t spins = timeout_ns > 0 ? std::min(policy_.spins, kBriefProbes) : policy_.spins;
  const StepFor purpose{.work = &work, .probes = spins};
  WaitTarget target = Step(purpose);
  if (work.ended()) return true;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  bool in_time = true;
  while (!work.ended() && in_time && gate_.here() && !Interrupted()) {
    StepMessages(&target);
    WaitPolicy rest = policy_;
    if (target.word != nullptr) rest.spins -= spins;
    in_time = WaitForTurn(target, rest, patience, &work);
    counters_.Waited(std::exchange(patience.slow_ns, 0));
    if (in_time && !work.ended()) target = Step(purpose);
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return work.ended();
}

bool OperationQueue::WaitForTurn(const WaitTarget& target, const WaitPolicy& policy,
                                 Deadline& deadline, const NodeWork* work) {
  const auto is_done = [&] {
    return work != nullptr && work->ended();
  };
  if (target.word ==
      nullptr) {  // somebody else steps, or `work` was left to who holds the issue lock
    const auto turn = [&] {
      const bool steppable = work == nullptr || has_operations();
      return is_done() || (steppable && !stepping());
    };
    Deadline brief{10'000'000};
    WaitUntil(woken_, policy, brief, turn, [] { return false; });
    deadline.slow_ns += brief.slow_ns;
    return !deadline.Passed(MonotonicNs());
  }
  const Visit visit(gate_);
  if (!visit.inside()) return !deadline.Passed(MonotonicNs());
  // A peer's death or an abort is found by stepping, so the wait ends now and then.
  const int64_t started_ns = MonotonicNs();
  const int64_t span_ns = target.others ? kMessageLookNs : kCheckPeersNs;
  const auto pause = [&] {
    return state_.aborted() || MonotonicNs() - started_ns > span_ns;
  };
  const WaitResult result = WaitUntil(
      state_.WaitersOf(target), policy, deadline, [&] { return target.Reached() || is_done(); },
      pause);
  // The wait has not looked at the deadline if it was stopped before it slept, as it is each time on a busy machine.
  return result == WaitResult::kReady || !deadline.Passed(MonotonicNs());
}

}  // namespace weft
