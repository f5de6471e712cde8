// One send, receive or probe of one rank under way, and the lists in which it stands.
//
//   MessageOperation operation(message, timeout_ns);
//   list.PushBack(operation);
//   for (MessageOperation* at = list.front(); at != nullptr; at = at->next()) ...
//
// A list owns nothing and allocates nothing: a blocking call's operation is on its caller's stack, an
// asynchronous one in its MessageWork. An operation is in one list at a time.
// Thread-safety: all under the rank's message lock, except ended().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/wait.h"
#include "comm/group/message.h"
#include "comm/recorder/message_ring.h"

namespace weft {

class MessageWork;

class MessageOperation {
 public:
  MessageOperation(const Message& message, int64_t timeout_ns)
      : message_(message), bytes_(MessageBytes(message)), deadline{timeout_ns} {}

  MessageOperation(const MessageOperation&) = delete;
  MessageOperation& operator=(const MessageOperation&) = delete;

  const Message& message() const { return message_; }

  size_t bytes() const { return bytes_; }

  // A matched receive: its rank copies the message without the sender's help.
  bool reads_itself() const { return place != nullptr || address != 0; }

  bool ended() const { return ended_.load(std::memory_order_seq_cst) != 0; }

  // After ended().
  const absl::Status& status() const { return status_; }

  // The last access to an operation that has no work: its caller may be gone afterwards.
  void End(absl::Status status) {
    status_ = std::move(status);
    ended_.store(1, std::memory_order_seq_cst);
  }

  MessageOperation* next() const { return next_; }

 private:
  friend class MessageList;

  const Message message_;
  const size_t bytes_;
  absl::Status status_;
  std::atomic<uint32_t> ended_{0};
  MessageOperation* next_ = nullptr;
  MessageOperation* previous_ = nullptr;

 public:
  Deadline deadline;
  MessageRing::Place recorded;  // in the flight recorder
  MessageWork* work = nullptr;  // that it belongs to, if it is asynchronous
  int source = -1;              // of a receive: whose message it has been matched with
  MessageFacts facts;           // and what it is, if its caller asks; what a probe has found
  uint32_t rts = 0;             // number of the RTS in its channel
  // A receive: the sender's buffer, mapped here (place) or to be read by the kernel (address); neither: it is streamed.
  const char* place = nullptr;
  uint64_t address = 0;
  size_t moved = 0;         // bytes copied so far
  uint32_t last_chunk = 0;  // of a streamed send: one past the last, once that is staged
  bool exposed = false;     // of a send: the receiver was told where in the heap the buffer is
  bool in_file = false;   // of an exposed send: it is in a file, which the receiver may fail to map
  bool readable = false;  // of a send: the receiver was told the address of the private buffer
};

class MessageList {
 public:
  bool empty() const { return front_ == nullptr; }

  MessageOperation* front() const { return front_; }

  void PushBack(MessageOperation& operation) {
    operation.next_ = nullptr;
    operation.previous_ = back_;
    (back_ == nullptr ? front_ : back_->next_) = &operation;
    back_ = &operation;
  }

  void PushFront(MessageOperation& operation) {
    operation.previous_ = nullptr;
    operation.next_ = front_;
    (front_ == nullptr ? back_ : front_->previous_) = &operation;
    front_ = &operation;
  }

  void Remove(MessageOperation& operation) {
    MessageOperation* const before = operation.previous_;
    MessageOperation* const after = operation.next_;
    (before == nullptr ? front_ : before->next_) = after;
    (after == nullptr ? back_ : after->previous_) = before;
    operation.next_ = operation.previous_ = nullptr;
  }

  MessageOperation* PopFront() {
    MessageOperation* const first = front_;
    if (first != nullptr) Remove(*first);
    return first;
  }

 private:
  MessageOperation* front_ = nullptr;
  MessageOperation* back_ = nullptr;
};

}  // namespace weft
