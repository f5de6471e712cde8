#include "comm/hierarchy/span_work.h"

#include <utility>

#include "base/status.h"
#include "comm/group/call_identity.h"
#include "comm/hierarchy/span_group.h"

namespace weft {

absl::StatusOr<std::shared_ptr<SpanWork>> SpanWork::Make(std::shared_ptr<SpanGroup> group,
                                                         const Collective& call, Isa isa) {
  SpanGroup& of = *group;
  auto work = std::make_shared<SpanWork>(std::move(group), call);
  WEFT_ASSIGN_OR_RETURN(work->span_call_, SpanCall::Make(work->call_, of.rank(), of.core().islands,
                                                         isa, of.core().net->buffers()));
  return work;
}

SpanWork::SpanWork(std::shared_ptr<SpanGroup> group, const Collective& call)
    : group_(std::move(group)), call_(call) {}

void SpanWork::Begin(uint64_t sequence, int64_t deadline_ns) {
  sequence_ = sequence;
  deadline_ns_ = deadline_ns;
  run_.emplace(span_call_->schedule(), group_->rank(), span_call_->Begin(),
               span_call_->arithmetic(),
               RunRoute{.transport = &group_->core().net->transport(),
                        .peers = group_->core().peers,
                        .stream = {group_->core().membership.group_id, sequence},
                        .signature = SignatureOf(IdentityOf(call_), /*in_line=*/false)});
}

void SpanWork::End(absl::Status status) {
  if (status.ok()) span_call_->Finish();
  // Its memory is the next operation's, whenever this object is freed.
  run_.reset();
  span_call_.reset();
  status_ = std::move(status);
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
