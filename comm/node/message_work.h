// An asynchronous send or receive, or one of each.
//
// Keeps itself alive until its operations have ended, and pins the heap blocks of their buffers; one that is not taken up
// lets go of them when it goes.
// Thread-safety: as in Work; OperationEnded under the message engine's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "comm/node/group_work.h"
#include "comm/node/message_operation.h"

namespace weft {

class MessageWork : public GroupWork {
 public:
  static constexpr size_t kOperationsMax = 2;

  // timeout_ns[i] is that of messages[i].
  MessageWork(std::shared_ptr<NodeGroup> group, std::span<const Message> messages,
              std::span<const int64_t> timeout_ns);
  ~MessageWork() override;

  absl::Status Wait(int64_t timeout_ns) override;

  // For the engine.
  std::span<MessageOperation* const> operations() const { return {pointers_.data(), count_}; }

  // It has been taken up: stays alive without its caller.
  void Hold(std::shared_ptr<MessageWork> self) { self_ = std::move(self); }

  // One of its operations has ended; the work itself if it was the last one.
  std::shared_ptr<MessageWork> OperationEnded(const absl::Status& status);

 private:
  friend class EndedMessages;

  const size_t count_;
  std::array<std::optional<MessageOperation>, kOperationsMax> operations_;
  std::array<MessageOperation*, kOperationsMax> pointers_{};
  size_t ended_count_ = 0;
  std::shared_ptr<MessageWork> self_;
  MessageWork* next_ = nullptr;  // in EndedMessages
};

// Works that have ended and whose callbacks have not run, in order. Takes no memory: works are linked by a member.
// Thread-safety: none.
class EndedMessages {
 public:
  EndedMessages() = default;

  EndedMessages(EndedMessages&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}

  EndedMessages& operator=(EndedMessages&& other) = delete;

  bool empty() const { return first_ == nullptr; }

  void Add(std::shared_ptr<MessageWork> work);

  // Runs the callbacks; with no lock held.
  void CallBack();

 private:
  MessageWork* first_ = nullptr;
  MessageWork* last_ = nullptr;
};

}  // namespace weft
