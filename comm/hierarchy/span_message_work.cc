#include "comm/hierarchy/span_message_work.h"

#include "base/status.h"
#include "comm/group/message.h"
#include "comm/hierarchy/span_group.h"

namespace weft {

SpanMessageWork::SpanMessageWork(std::shared_ptr<SpanGroup> group,
                                 std::span<const Message> messages,
                                 std::span<const int64_t> deadlines_ns)
    : group_(std::move(group)), first_(messages[0], deadlines_ns[0]) {
  if (messages.size() > 1) second_.emplace(messages[1], deadlines_ns[1]);
}

void SpanMessageWork::End(const absl::Status& status) {
  for (size_t i = 0; i < count() && status.ok(); ++i) {
    const SpanMessage& ended = message(i);
    if (!ended.message.is_send) TellFacts(ended.message, ended.source, ended.facts);
  }
  status_ = WithOperation(status, MessageName(message(0).message), /*sequence=*/-1);
  SetEnded();
}

bool SpanMessageWork::Test() {
  if (!ended()) group_->StepAll();
  return ended();
}

absl::Status SpanMessageWork::Wait(int64_t timeout_ns) {
  return group_->WaitFor(*this, timeout_ns);
}

const void* SpanMessageWork::moved_with() const {
  return group_.get();
}

void SpanMessageWork::LeaveToProgress() {
  if (!ended()) group_->LeaveToProgress(Asking::kNow);
}

}  // namespace weft
