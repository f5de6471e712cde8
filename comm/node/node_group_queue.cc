// What a NodeGroup does with operations that nobody was made to wait for: starting, stepping and awaiting them.
//
// In the usual case a caller starts an operation and soon waits for it, alone with the group. Then that costs
// little more than a blocking call: the operation announces itself under the issue word, the waiter takes
// the step word once and keeps it while it spins, and neither a lock nor a clock nor a second thread
// comes into it.
#include <algorithm>
#include <utility>

#include <sched.h>

#include "comm/group/progress.h"
#include "comm/node/node_group.h"
#include "comm/node/node_work.h"

namespace weft {
namespace {

constexpr int64_t kMessageLookNs = 200'000;  // between looks at messages, while an operation is waited for

}  // namespace

absl::Status NodeGroup::ReadyForProgress() {
  if (ready_for_progress_.load(std::memory_order_acquire)) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(PrepareProgress());
  ready_for_progress_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

// The operation gets its place, and from here on nothing may fail: all ranks count operations. issue_ is held.
void NodeGroup::Begin(NodeWork& work) {
  const uint64_t sequence = counters_.Start();
  work.Begin(sequence, state_);
  state_.recorder.Record(sequence, RecorderTicks(), work.operation().prepared().recorded);
  if (caller_drives_) work.deadline().Passed(MonotonicNs());  // nobody may look for long
}

void NodeGroup::AskAfterStart(bool background) {
  if (background && has_queued()) return AskForProgress(shared_from_this(), Asking::kNow);
  if (!asked_for_progress_.load(std::memory_order_seq_cst) && has_queued()) {
    AskForProgress(shared_from_this(), Asking::kSoon);
  }
}

// issue_ is held, and let go here. With nothing before it, and so nobody who steps, the operation goes as far as
// it can at once.
void NodeGroup::Launch(const std::shared_ptr<NodeWork>& work, IssueTurn& turn) {
  Begin(*work);
  const bool background = work->call().background && !caller_drives_;
  if (background) background_until_.store(counters_.started(), std::memory_order_relaxed);
  if (background || has_operations()) {
    queue_.Add(work);
    turn.End();
    if (!background) Step(StepFor{.starts = true});
  } else {
    const Operation::Result result = work->operation().Poll();
    if (result != Operation::Result::kBlocked) {
      work->SetStatus(Conclude(work->operation(), result));
      turn.End();
      work->End();
      work->RunCallback();
      messages_.RunCallbacks();
      return;
    }
    WakeAfterStart();
    queue_.Add(work);
    turn.End();
  }
  AskAfterStart(background);
}

// To be issued by whoever holds issue_: it is not waited for, however long that takes.
absl::Status NodeGroup::LeaveToHolder(const std::shared_ptr<NodeWork>& work) {
  left_.fetch_add(1, std::memory_order_seq_cst);
  const IssueWord::Turn turn = issue_.TakeOrLeave(work);
  if (turn == IssueWord::Turn::kLeft) {
    AskAfterStart(false);
    return absl::OkStatus();
  }
  left_.fetch_sub(1, std::memory_order_seq_cst);
  if (turn == IssueWord::Turn::kSealed) return Closed();
  IssueTurn held(*this);
  if (!Usable()) return Refusal();
  Launch(work, held);
  return absl::OkStatus();
}

// Works that were left, in the order of their start; true if there are any. issue_ is held.
bool NodeGroup::QueueLeft(NodeWork* left) {
  const bool any = left != nullptr;
  while (left != nullptr) {
    std::shared_ptr<NodeWork> work = std::move(left->self);
    left = left->next;
    Begin(*work);
    if (work->call().background && !caller_drives_) {
      background_until_.store(counters_.started(), std::memory_order_relaxed);
    }
    queue_.Add(std::move(work));
    left_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return any;
}

// Only announces them: what ends now has callbacks, and the caller has called for something else.
void NodeGroup::IssueLeft() {
  do {
    QueueLeft(issue_.TakeStarted());
  } while (!issue_.TryLetGo());
  if (TryAcquire(step_)) {
    if (!gone_.load(std::memory_order_seq_cst)) {
      queue_.TakeIn();
      // With nothing queued the state is that of whoever holds issue_ by now.
      if (queue_.front() != nullptr) {
        if (!state_.aborted()) IssueAhead();
        WakeAfterStart();
      }
    }
    Release(step_);
  }
  NotifyAll(local_);
  const uint64_t background_until = background_until_.load(std::memory_order_relaxed);
  AskAfterStart(counters_.ended() < background_until);
}

// All that can fail comes before peers can see the operation, so a start that fails has done nothing.
absl::StatusOr<WorkRef> NodeGroup::Start(const Collective& call) {
  if (!here()) return Forked();
  if (closed()) return Closed();
  WEFT_RETURN_IF_ERROR(CheckAlgorithm(call, state_));
  WEFT_RETURN_IF_ERROR(ReadyForProgress());
  PreparedCall prepared(call, state_);
  const auto work = std::make_shared<NodeWork>(shared_from_this(), prepared, TimeoutOf(call));
  if (!issue_.TryTake()) {
    WEFT_RETURN_IF_ERROR(LeaveToHolder(work));
    return WorkRef(work);
  }
  IssueTurn held(*this);
  if (!Usable()) return Refusal();
  WEFT_RETURN_IF_ERROR(Equip(prepared));
  if (IsPlain(call)) prepared_.Keep(std::move(prepared));
  Launch(work, held);
  return WorkRef(work);
}

bool NodeGroup::StartAgain(const CallKey& key, const void* in, void* out, WorkRef* started) {
  if (!ready_for_progress_.load(std::memory_order_acquire) || !issue_.TryTake()) return false;
  IssueTurn held(*this);
  PreparedCall* const prepared = Usable() ? prepared_.Find(key, in, out) : nullptr;
  if (prepared == nullptr) return false;
  prepared->call.priority = 0;
  const auto work = std::make_shared<NodeWork>(shared_from_this(), *prepared, options_.timeout_ns);
  Launch(work, held);
  *started = work;
  return true;
}

int32_t NodeGroup::QueuedPriority() {
  int32_t highest = messages_.has_works() ? 0 : INT32_MIN;
  if (!TryAcquire(step_)) return highest;  // it is being moved
  queue_.TakeIn();
  for (NodeWork* work = queue_.front(); work != nullptr; work = work->next)
    highest = std::max(highest, work->call().priority);
  Release(step_);
  return highest;
}

NodeGroup::Attendance NodeGroup::Look() {
  const uint64_t ended = counters_.ended();
  const bool moved = seen_ended_.exchange(ended, std::memory_order_relaxed) != ended;
  const bool queued = has_operations();
  const bool was_queued = seen_queued_.exchange(queued, std::memory_order_relaxed);
  if (messages_.has_works()) return Attendance::kNeeded;
  const bool busy = moved || was_queued || left_.load(std::memory_order_relaxed) > 0;
  if (!queued) return busy ? Attendance::kNotNeeded : Attendance::kIdle;
  if (ended < background_until_.load(std::memory_order_relaxed)) return Attendance::kNeeded;
  const bool awaited =
      waiting_.load(std::memory_order_relaxed) > 0 || step_.load(std::memory_order_relaxed) != 0;
  return was_queued && !moved && !awaited ? Attendance::kNeeded : Attendance::kNotNeeded;
}

bool NodeGroup::Help(WaitTarget* target) {
  const bool queued = TryStep(target);
  seen_ended_.store(counters_.ended(), std::memory_order_relaxed);
  return queued;
}

// A peer that sleeps at this moment is woken; if one lies down just now, the next step will find it, and
// somebody steps before long. Nobody does where callers drive progress.
void NodeGroup::WakeAfterStart() {
  if (caller_drives_) {
    state_.Wake();
  } else {
    state_.WakeSleepers();
  }
}

// Lets peers know of operations behind the front, so that they find them arrived.
void NodeGroup::IssueAhead() {
  while (NodeWork* const work = queue_.unissued()) {
    if (work->operation().Start() == Operation::Result::kBlocked) return;
    queue_.NoteIssued();
  }
}

// True if the operation has to wait longer; false if it can go on, or must end: then *result is kFailed.
bool NodeGroup::StaysBlocked(NodeWork& work, const StepFor& purpose, Operation::Result* result) {
  const Operation& operation = work.operation();
  const WaitTarget target = operation.target();
  const auto through = [&] {
    return purpose.work != nullptr && purpose.work->ended();
  };
  const auto ready = [&] {
    return target.Reached() || queue_.has_new() || through();
  };
  if (ProbeBriefly(purpose.probes, ready) && !through()) return false;
  if (purpose.starts) {
    WakeAfterStart();
    return true;
  }
  state_.Wake();
  if (purpose.work != nullptr) {  // this is the thread that waits
    state_.NoteCpu(static_cast<uint32_t>(sched_getcpu()));
    spread_.Look(state_);
  }
  const int64_t now_ns = MonotonicNs();
  queue_.StartDeadlines(now_ns);
  const bool late = work.deadline().Passed(now_ns) && !target.Reached();
  if (late) checked_ns_.store(0, std::memory_order_relaxed);
  if (Hopeless(operation, target)) {
    *result = Operation::Result::kFailed;
    return false;
  }
  if (!late) return true;
  failures_.Raise(failures_.Timeout(operation, target, work.deadline().timeout_ns));
  *result = Operation::Result::kFailed;
  return false;
}

bool NodeGroup::StepQueue(StepFor purpose, EndedWorks* ended, WaitTarget* target) {
  while (true) {
    queue_.TakeIn();
    NodeWork* const front = queue_.front();
    if (front == nullptr) return false;
    Operation& operation = front->operation();
    Operation::Result result = Operation::Result::kFailed;
    if (!state_.aborted()) {
      IssueAhead();
      result = operation.Poll();
    }
    if (result == Operation::Result::kBlocked) {
      if (StaysBlocked(*front, purpose, &result)) {
        *target = operation.target();
        return true;
      }
      if (result == Operation::Result::kBlocked) continue;
    }
    front->SetStatus(Conclude(operation, result));
    if (front == purpose.work) purpose = StepFor{.starts = true};
    ended->Add(queue_.PopFront());
  }
}

WaitTarget NodeGroup::Step(const StepFor& purpose) {
  WaitTarget target;
  EndedWorks ended;
  if (!here() || !TryAcquire(step_)) return target;
  if (!gone_.load(std::memory_order_seq_cst)) StepQueue(purpose, &ended, &target);
  Release(step_);
  messages_.RunCallbacks();  // of messages that ended under the step word
  ended.Finish();
  return target;
}

bool NodeGroup::TryStep(WaitTarget* target) {
  *target = has_operations() ? Step({}) : WaitTarget{};
  StepMessages(target);
  return has_queued();
}

void NodeGroup::StepMessages(WaitTarget* target) {
  WaitTarget of_messages;
  if (!messages_.TryStep(&of_messages)) return;
  target->others = true;
  if (!has_operations()) *target = of_messages;
}

bool NodeGroup::Await(const NodeWork& work, int64_t timeout_ns) {
  Deadline patience{timeout_ns > 0 ? timeout_ns : INT64_MAX / 4};
  if (timeout_ns > 0) patience.Passed(MonotonicNs());
  const uint32_t spins = timeout_ns > 0 ? std::min(policy_.spins, kBriefProbes) : policy_.spins;
  const StepFor purpose{.work = &work, .probes = spins};
  WaitTarget target = Step(purpose);
  if (work.ended()) return true;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  bool in_time = true;
  while (!work.ended() && in_time && here()) {
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

bool NodeGroup::WaitForTurn(const WaitTarget& target, const WaitPolicy& policy, Deadline& deadline,
                            const NodeWork* work) {
  const auto is_done = [&] {
    return work != nullptr && work->ended();
  };
  if (target.word == nullptr) {  // somebody else steps, or `work` was left to who holds issue_
    const auto turn = [&] {
      const bool steppable = work == nullptr || has_operations();
      return is_done() || (steppable && step_.load(std::memory_order_seq_cst) == 0);
    };
    Deadline brief{10'000'000};
    WaitUntil(local_, policy, brief, turn, [] { return false; });
    deadline.slow_ns += brief.slow_ns;
    return !deadline.Passed(MonotonicNs());
  }
  if (!Enter()) return !deadline.Passed(MonotonicNs());
  // A peer's death or an abort is found by stepping, so the wait ends now and then.
  const int64_t started_ns = MonotonicNs();
  const int64_t span_ns = target.others ? kMessageLookNs : kCheckPeersNs;
  const auto pause = [&] {
    return state_.aborted() || MonotonicNs() - started_ns > span_ns;
  };
  const WaitResult result = WaitUntil(
      state_.EventsOf(target), policy, deadline, [&] { return target.Reached() || is_done(); },
      pause);
  Leave();
  return result != WaitResult::kDeadline;
}

}  // namespace weft
