#include "comm/hierarchy/span_work.h"

#include <bit>
#include <utility>

#include "base/status.h"
#include "comm/group/call_identity.h"
#include "comm/hierarchy/span_group.h"

namespace weft {

SpanWork::SpanWork(std::shared_ptr<SpanGroup> group, const Collective& call,
                   std::shared_ptr<SpanPlan> plan)
    : group_(std::move(group)), call_(call), plan_(std::move(plan)) {
  span_call_.emplace(call_, group_->rank(), *plan_, group_->core().net->buffers());
}

void SpanWork::Begin(uint64_t sequence, int64_t deadline_ns) {
  sequence_ = sequence;
  deadline_ns_ = deadline_ns;
  const uint32_t signature = SignatureOf(IdentityOf(call_), /*in_line=*/false) ^ plan_->signature();
  recorded_ = RecorderRing::ArgumentsOf(call_, group_->core().epoch, signature);
  run_ = plan_->TakeRun();
  RunMemory memory = span_call_->Begin();
  memory.scratch = run_->scratch.data();
  run_->engine.Begin(memory, {.transport = &group_->core().net->transport(),
                              .peers = group_->core().peers,
                              .stream = {group_->core().membership.group_id, sequence},
                              .signature = signature,
                              .record = std::bit_cast<CallRecord>(recorded_),
                              .traffic = group_->core().traffic.get()});
}

void SpanWork::End(const absl::Status& status) {
  if (status.ok()) {
    span_call_->Finish();
    plan_->Keep(std::move(run_));
  }
  // Its memory is the next operation's, whenever this object is freed.
  run_.reset();
  span_call_.reset();
  status_ = WithOperation(status, CallName(call_.kind, call_.purpose.record),
                          static_cast<int64_t>(sequence_));
  SetEnded();
}

bool SpanWork::Test() {
  if (!ended()) group_->StepAll();
  return ended();
}

absl::Status SpanWork::Wait(int64_t timeout_ns) {
  return group_->WaitFor(*this, timeout_ns);
}

const void* SpanWork::moved_with() const {
  return group_.get();
}

void SpanWork::LeaveToProgress() {
  if (!ended()) group_->LeaveToProgress(Asking::kNow);
}

}  // namespace weft
