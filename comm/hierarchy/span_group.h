// A process group whose ranks are on several islands.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanGroup> group, SpanGroup::Make(store, std::move(meeting), options, settings));
//   WEFT_RETURN_IF_ERROR(group->Run(collective));
//
// Each collective is a schedule (comm/schedule), carried out over the transport by whoever waits or tests, or by the progress
// thread. Several may be under way; none holds up another. How the group ends is for the watch of its islands to say
// (span_watch.h): all ranks get the same cause, so a failure that is found here ends the group of this island, and operations end when
// all islands have settled what it was.
//
// Thread-safety: all public members, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/group/callback_work.h"
#include "comm/group/fork.h"
#include "comm/group/process_group.h"
#include "comm/group/progress.h"
#include "comm/group/refusal.h"
#include "comm/group/stepped.h"
#include "comm/hierarchy/make_span.h"
#include "comm/hierarchy/span_message_work.h"
#include "comm/hierarchy/span_messages.h"
#include "comm/hierarchy/span_plan.h"
#include "comm/hierarchy/span_recorder.h"
#include "comm/hierarchy/span_succession.h"
#include "comm/hierarchy/span_wait_report.h"
#include "comm/hierarchy/span_work.h"
#include "comm/node/parts.h"

namespace weft {

class SpanGroup : public ProcessGroup,
                  public Stepped,
                  public std::enable_shared_from_this<SpanGroup> {
 public:
  // Collective; errors as MakeSpan's.
  static absl::StatusOr<std::shared_ptr<SpanGroup>> Make(Store& store, GroupMeeting meeting,
                                                         const GroupOptions& options,
                                                         const SpanSettings& settings);

  // `part_of`: the parts of the group that it was split from; nullptr: none.
  SpanGroup(SpanCore core, int rank, const GroupOptions& options, Isa isa,
            std::shared_ptr<Parts> part_of);
  ~SpanGroup() override;

  int rank() const override { return rank_; }

  int size() const override { return static_cast<int>(core_.peers.size()); }

  const std::string& name() const override { return options_.name; }

  uint32_t epoch() const override { return core_.epoch; }

  int world_rank(int rank) const override {
    return core_.membership.members[static_cast<size_t>(rank)].world_rank;
  }

  absl::Status Run(const Collective& call) override;
  absl::StatusOr<WorkRef> Start(const Collective& call) override;
  absl::Status Run(const Message& message) override;
  absl::StatusOr<WorkRef> Start(const Message& message) override;
  absl::Status RunPair(const Message& send, const Message& recv) override;
  absl::StatusOr<WorkRef> StartPair(const Message& send, const Message& recv) override;
  absl::StatusOr<bool> TryProbe(const Message& probe) override;
  absl::Status Refuse(std::optional<OpKind> refused, std::string_view reason) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Reconfigure(const std::vector<int>& members,
                                                            const GroupOptions& options) override;
  std::string Explain(const Collective& call, BufferKind buffers) const override;
  GroupStats stats() const override;

  uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

  void SetTimeout(int64_t timeout_ns) override;
  absl::Status error() override;
  void Abort(std::string_view reason) override;
  void Fail(const absl::Status& cause) override;
  void Close() override;

  // Stepped.
  Attendance Look() override;
  bool TryStep(WaitTarget* target) override;
  bool Help(WaitTarget* target) override;
  bool WaitFor(const WaitTarget& target, Deadline& deadline) override;
  int32_t QueuedPriority() override;
  uint32_t queued() const override;
  void SetAskedForProgress(bool asked) override;

  // For its works. Its net is nullptr once it is closed.
  const SpanCore& core() const { return core_; }

  void StepAll();
  absl::Status WaitFor(CallbackWork& work, int64_t timeout_ns);
  void LeaveToProgress(Asking asking);

 private:
  using Works = std::vector<std::shared_ptr<CallbackWork>>;

  absl::StatusOr<std::shared_ptr<SpanWork>> Issue(const Collective& call);
  absl::StatusOr<std::shared_ptr<SpanMessageWork>> Issue(std::span<const Message> messages);
  absl::Status Prepare();
  absl::Status Admit() WEFT_REQUIRES(mutex_);
  bool MoveWorks() WEFT_REQUIRES(mutex_);
  Works TakeEnded() WEFT_REQUIRES(mutex_);
  void LookForFailure(int64_t now_ns) WEFT_REQUIRES(mutex_);
  void Find(const absl::Status& found) WEFT_REQUIRES(mutex_);
  void EndAll(const absl::Status& cause, Works* ended) WEFT_REQUIRES(mutex_);
  void NapOnSockets(int64_t until_ns);

  SpanCore core_;
  const int rank_;
  const GroupOptions options_;
  const Isa isa_;
  const Origin origin_;
  const std::shared_ptr<Parts> parts_ = std::make_shared<Parts>();
  const std::shared_ptr<SpanWaitReport> report_;
  const std::shared_ptr<Parts> part_of_;  // nullptr: it was not split from another one
  std::atomic<uint64_t> sequence_{0};
  std::atomic<int64_t> timeout_ns_;
  std::atomic<uint32_t> queued_{0};
  std::atomic<bool> asked_{false};
  std::atomic<uint64_t> ended_works_{0};
  uint64_t looked_at_ = 0;  // of ended_works_, by the progress thread

  mutable Mutex mutex_;
  std::deque<std::shared_ptr<SpanWork>> works_ WEFT_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<SpanMessageWork>> message_works_ WEFT_GUARDED_BY(mutex_);
  SpanPlans plans_ WEFT_GUARDED_BY(mutex_);
  SpanMessages messages_ WEFT_GUARDED_BY(mutex_);
  SpanRecorder recorder_;                       // under mutex_ but where it says
  absl::Status cause_ WEFT_GUARDED_BY(mutex_);  // why the group has ended, as all islands say
  int64_t next_look_ns_ WEFT_GUARDED_BY(mutex_) = 0;
  int64_t settle_by_ns_ WEFT_GUARDED_BY(mutex_) =
      0;  // 0: nothing is found; else a cause must be settled by then
  bool told_ WEFT_GUARDED_BY(mutex_) = false;  // the cause, to somebody
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  SpanSuccession succession_;
  Refusals refusals_;
};

}  // namespace weft
