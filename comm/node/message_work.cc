#include "comm/node/message_work.h"

#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/node_group.h"

namespace weft {
namespace {

const void* BufferOf(const Message& message) {
  return message.is_send ? message.in : message.out;
}

}  // namespace

MessageWork::MessageWork(std::shared_ptr<NodeGroup> group, std::span<const Message> messages,
                         std::span<const int64_t> timeout_ns)
    : GroupWork(std::move(group)), count_(messages.size()) {
  for (size_t i = 0; i < count_; ++i) {
    MessageOperation& operation = operations_[i].emplace(messages[i], timeout_ns[i]);
    operation.deadline.Passed(MonotonicNs());  // begins now
    operation.work = this;
    pointers_[i] = &operation;
    ProcessHeap().Pin(BufferOf(messages[i]));
  }
}

MessageWork::~MessageWork() {
  if (ended()) return;
  for (MessageOperation* const operation : operations())
    ProcessHeap().Unpin(BufferOf(operation->message()));
}

std::shared_ptr<MessageWork> MessageWork::OperationEnded(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  if (++ended_count_ < count_) return nullptr;
  for (MessageOperation* const operation : operations())
    ProcessHeap().Unpin(BufferOf(operation->message()));
  SetEnded();
  return std::move(self_);
}

void EndedMessages::Add(std::shared_ptr<MessageWork> work) {
  MessageWork* const added = work.get();
  added->self_ = std::move(work);
  (last_ == nullptr ? first_ : last_->next_) = added;
  last_ = added;
}

void EndedMessages::CallBack() {
  last_ = nullptr;
  while (first_ != nullptr) {
    const std::shared_ptr<MessageWork> work = std::move(first_->self_);
    first_ = std::exchange(work->next_, nullptr);
    work->RunCallback();
  }
}

absl::Status MessageWork::Wait(int64_t timeout_ns) {
  Deadline patience{timeout_ns > 0 ? timeout_ns : INT64_MAX / 4};
  if (!ended()) {
    if (timeout_ns > 0) patience.Passed(MonotonicNs());
    if (!group().messages().Await(operations(), patience)) {
      if (!group().here()) return group().Forked();
      if (Interrupted()) return InterruptedError("weft_work_wait");
      return MakeError(WEFT_IN_PROGRESS, "the message has not gone through yet");
    }
  }
  return status_;
}

}  // namespace weft
