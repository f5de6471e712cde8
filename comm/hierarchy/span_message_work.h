// A send or a receive of a group over several islands, or one of each, as a work.
//
//   const auto work = std::make_shared<SpanMessageWork>(group, std::array{send, recv}, deadlines_ns);
//   for (size_t i = 0; i < work->count(); ++i) messages.Issue(&work->message(i));
//   ... group: until work->done(), then work->End(...) and, with no lock held, work->RunCallback()
//
// Thread-safety: as Work; what is for the group under its lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "comm/group/callback_work.h"
#include "comm/hierarchy/span_message.h"

namespace weft {

class SpanGroup;

class SpanMessageWork : public CallbackWork {
 public:
  // One message, or two. deadlines_ns[i] is that of messages[i].
  SpanMessageWork(std::shared_ptr<SpanGroup> group, std::span<const Message> messages,
                  std::span<const int64_t> deadlines_ns);

  bool Test() override;
  absl::Status Wait(int64_t timeout_ns) override;
  const void* moved_with() const override;
  void LeaveToProgress() override;

  // The rest is for the group.

  size_t count() const { return second_ ? 2 : 1; }

  SpanMessage& message(size_t number) { return number == 0 ? first_ : *second_; }

  bool done() const { return first_.done && (!second_ || second_->done); }

  // If that was well, receives say whose message they got. RunCallback() follows, with no lock held.
  void End(const absl::Status& status);

 private:
  const std::shared_ptr<SpanGroup> group_;
  SpanMessage first_;
  std::optional<SpanMessage> second_;
};

}  // namespace weft
