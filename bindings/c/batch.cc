// Starting never waits, and nothing is waited for before all is started: so ranks may note groups in different orders. When a
// start fails, the later calls of that group are not started, because they would meet other calls of its peers; other groups
// go on. Works of a batch that is never ended are settled when its thread ends, or their waiters would wait for ever.
#include "weft/batch.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/per_thread.h"
#include "base/status.h"
#include "bindings/c/batch.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "comm/group/progress.h"

namespace weft {

constinit thread_local int batch_depth = 0;

namespace {

constexpr int64_t kLookNs = 1'000'000;  // between two rounds of all groups, if no thread moves them

struct Entry {
  BatchedCall call;
  size_t group = 0;                     // index of its group in the batch
  std::shared_ptr<BatchedWork> handle;  // nullptr: the end waits for it
  WorkRef work;                         // once started
};

struct Batch {
  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // The thread ends within its batch.
  ~Batch() {
    for (const Entry& entry : entries) {
      if (entry.handle == nullptr) continue;
      entry.handle->Settle(
          MakeError(WEFT_BAD_STATE, "not started: the thread that began the batch did not end it"));
    }
  }

  std::vector<GroupMaking> makings;
  std::vector<Entry> entries;
  std::vector<const ProcessGroup*> groups;  // in the order of their first calls
  bool cancelled = false;                   // in an inner level: nothing will be started
};

size_t IndexOf(const ProcessGroup* group, std::vector<const ProcessGroup*>& groups) {
  const auto known = std::find(groups.begin(), groups.end(), group);
  if (known != groups.end()) return static_cast<size_t>(known - groups.begin());
  groups.push_back(group);
  return groups.size() - 1;
}

// `earlier` is why another operation of the group was not started, or Ok.
absl::StatusOr<WorkRef> StartOne(const Entry& entry, const absl::Status& earlier) {
  try {
    if (earlier.ok()) return entry.call.start();
    return Annotate(earlier, "not started, as an earlier operation of the batch was not: ");
  } catch (const std::bad_alloc&) {
    return MakeError(WEFT_OUT_OF_MEMORY, "starting an operation of a batch: out of memory");
  }
}

// Group by group, most urgent first. Returns the first failure to start one.
absl::Status StartAll(std::vector<Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.group != b.group ? a.group < b.group : a.call.priority > b.call.priority;
  });
  absl::Status first;
  absl::Status of_group;
  size_t group = 0;
  for (Entry& entry : entries) {
    if (entry.group != std::exchange(group, entry.group)) of_group = absl::OkStatus();
    absl::StatusOr<WorkRef> started = StartOne(entry, of_group);
    if (!started.ok() && of_group.ok()) of_group = started.status();
    if (!started.ok() && first.ok()) first = started.status();
    if (started.ok() && entry.handle == nullptr) entry.work = *started;
    if (entry.handle != nullptr) entry.handle->Settle(std::move(started));
  }
  return first;
}

// Where no thread moves operations, this one moves those of all groups while it waits: a peer may wait
// for them in another order.
absl::Status Await(Work& work, ProcessGroup& group) {
  absl::Status status;
  while (CallerDrivesProgress() && !work.ended() && ResultOf(status) != WEFT_INTERRUPTED) {
    ProgressAll();
    status = work.Wait(kLookNs);
  }
  if (ResultOf(status) != WEFT_INTERRUPTED) status = work.Wait(0);
  if (ResultOf(status) != WEFT_INTERRUPTED) return status;
  // The caller takes the operation for ended, and its buffers back.
  (void)TakeInterrupt();
  group.Abort("interrupted by its program (weft_set_interrupt)");
  const UninterruptedWaits until_it_has_ended;
  const absl::Status ended = work.Wait(0);
  return ended.ok() ? ended : InterruptedError("weft_batch_end");
}

// Ends a level of the batch, which there must be.
absl::Status LeaveLevel(std::string_view call) {
  if (batch_depth == 0) {
    return CallError(WEFT_BAD_STATE, call, "there is no weft_batch_begin() before it");
  }
  --batch_depth;
  return absl::OkStatus();
}

// Starts nothing of what was noted: works end, and groups are aborted, each once. Peers have seen nothing of these
// operations, but may wait for them, and a later call of this rank would pass for the one that they wait for.
void DropNoted(Batch& batch) {
  std::vector<bool> aborted(batch.groups.size());
  batch.makings.clear();
  batch.groups.clear();
  const std::vector<Entry> entries = std::exchange(batch.entries, {});
  for (const Entry& entry : entries) {
    ProcessGroup& group = *entry.call.group;
    if (entry.handle != nullptr) {
      entry.handle->Settle(
          MakeError(WEFT_ABORTED, {.group = group.name()},
                    StrCat("not started: the batch on group ", group.name(),
                           " that it was called in was cancelled by weft_batch_cancel()")));
    }
    if (aborted[entry.group]) continue;
    aborted[entry.group] = true;
    group.Abort("it cancelled a batch with operations of this group (weft_batch_cancel)");
  }
}

absl::Status CancelBatch() {
  WEFT_RETURN_IF_ERROR(LeaveLevel("weft_batch_cancel"));
  Batch& batch = PerThread<Batch>::Get();
  batch.cancelled = batch_depth > 0;
  DropNoted(batch);
  return absl::OkStatus();
}

absl::Status EndBatch() {
  WEFT_RETURN_IF_ERROR(LeaveLevel("weft_batch_end"));
  if (batch_depth > 0) return absl::OkStatus();
  Batch& batch = PerThread<Batch>::Get();
  if (std::exchange(batch.cancelled, false)) {
    DropNoted(batch);
    return CallError(
        WEFT_ABORTED, "weft_batch_end",
        "nothing of the batch was started, as weft_batch_cancel() was called inside it");
  }
  batch.groups.clear();
  std::vector<Entry> entries = std::exchange(batch.entries, {});
  absl::Status first = MakeTogether(std::exchange(batch.makings, {}));
  const absl::Status started = StartAll(entries);
  if (first.ok()) first = started;
  for (const Entry& entry : entries) {
    if (entry.work == nullptr) continue;
    absl::Status ended = Await(*entry.work, *entry.call.group);
    if (first.ok()) first = std::move(ended);
  }
  return first;
}

}  // namespace

void BatchedWork::Settle(absl::StatusOr<WorkRef> started) {
  if (started.ok()) {
    started_ = *std::move(started);
  } else {
    failure_ = std::move(started).status();
  }
  settled_.store(true, std::memory_order_release);
}

bool BatchedWork::OnComplete(std::function<void(const absl::Status&)> callback) {
  if (started_ != nullptr) return started_->OnComplete(std::move(callback));
  if (has_callback_.exchange(true)) return false;
  callback(failure_);
  return true;
}

absl::Status NoteInBatch(BatchedCall call, weft_work_t* work) {
  Batch& batch = PerThread<Batch>::Get();
  Entry entry;
  entry.group = IndexOf(call.group.get(), batch.groups);
  entry.call = std::move(call);
  std::unique_ptr<weft_work> handle;
  if (work != nullptr) {
    handle = std::make_unique<weft_work>();
    entry.handle = std::make_shared<BatchedWork>();
    handle->work = handle->batched = entry.handle;
  }
  batch.entries.push_back(std::move(entry));
  if (work != nullptr) *work = handle.release();
  return absl::OkStatus();
}

absl::Status NoteMakingInBatch(std::string_view call, GroupMaking making) {
  Batch& batch = PerThread<Batch>::Get();
  if (batch.makings.size() == kMakingsMax) {
    return CallError(
        WEFT_INVALID_USAGE, call,
        StrCat("a batch makes at most ", kMakingsMax, " groups; end it, and begin another one"));
  }
  batch.makings.push_back(std::move(making));
  return absl::OkStatus();
}

}  // namespace weft

weft_result_t weft_batch_begin(void) {
  ++weft::batch_depth;
  return WEFT_SUCCESS;
}

weft_result_t weft_batch_end(void) {
  return weft::Guarded(weft::EndBatch);
}

weft_result_t weft_batch_cancel(void) {
  return weft::Guarded(weft::CancelBatch);
}
