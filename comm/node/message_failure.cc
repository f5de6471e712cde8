#include "comm/node/message_failure.h"

#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {

ErrorFields MessageFailure::FieldsFor(const Message& message, int culprit) const {
  ErrorFields fields = reporter_.names().FieldsOf(culprit);
  fields.operation = MessageName(message);
  return fields;
}

// "recv of 4096 float32 with tag 7 on group dp: "
std::string MessageFailure::Heading(const Message& message) const {
  return fmt::format("{} on group {}: ", MessageText(message), group_);
}

// What the peer would have to do: "send one to rank 1".
std::string MessageFailure::OtherHalf(const Message& message) const {
  const std::string self = reporter_.names().NameOf(state_.rank);
  return message.is_send ? StrCat("receive it from ", self) : StrCat("send one to ", self);
}

absl::Status MessageFailure::Timeout(const MessageOperation& operation) const {
  const Message& message = operation.message();
  const int peer = operation.source >= 0 ? operation.source : message.peer;
  const double seconds = static_cast<double>(operation.deadline.timeout_ns) * 1e-9;
  const std::string self = reporter_.names().NameOf(state_.rank);
  std::string text = Heading(message);
  const std::vector<int> found =
      peer == WEFT_ANY_SOURCE ? std::vector<int>() : reporter_.FindHoldingUp({peer});
  const int culprit = found.empty() ? -1 : found.front();
  if (peer == WEFT_ANY_SOURCE) {
    text += fmt::format("no rank sent one to {} within {:.3g} s", self, seconds);
  } else if (message.is_send) {
    text += fmt::format("{} has not received it from {} within {:.3g} s", reporter_.WhereIs(peer),
                        self, seconds);
  } else if (operation.source < 0) {
    text += fmt::format("{} did not send one to {} within {:.3g} s", reporter_.WhereIs(peer), self,
                        seconds);
  } else {
    text += fmt::format("{} of {} bytes came from {} to {} within {:.3g} s", operation.moved,
                        operation.bytes(), reporter_.WhereIs(peer), self, seconds);
  }
  if (culprit >= 0 && culprit != peer) {
    text += fmt::format("; it waits for others, and they for {}", reporter_.WhereIs(culprit));
  }
  return MakeError(WEFT_TIMEOUT, FieldsFor(message, culprit), text);
}

absl::Status MessageFailure::PeerLost(const MessageOperation& operation, int peer,
                                      const ExitInfo& exit) const {
  ErrorFields fields = FieldsFor(operation.message(), peer);
  fields.signal = exit.signal;
  fields.exit_code = exit.exit_code;
  return MakeError(WEFT_PEER_LOST, fields,
                   fmt::format("{}{} {}", Heading(operation.message()),
                               reporter_.names().NameOf(
                                   peer, fmt::format("host {}, pid {}", fields.host, fields.pid)),
                               exit.ToString()));
}

absl::Status MessageFailure::PeerReplaced(const Message& message, int peer) const {
  const ErrorFields fields = FieldsFor(message, peer);
  return MakeError(
      WEFT_PEER_LOST, fields,
      fmt::format(
          "{}{} runs another program by now (exec) and will not {}", Heading(message),
          reporter_.names().NameOf(peer, fmt::format("host {}, pid {}", fields.host, fields.pid)),
          OtherHalf(message)));
}

absl::Status MessageFailure::PeerLeft(const Message& message, int peer) const {
  return MakeError(
      WEFT_PEER_LOST, FieldsFor(message, peer),
      fmt::format("{}{} has left the group (it destroyed its handle) and will not {}",
                  Heading(message), reporter_.names().NameOf(peer), OtherHalf(message)));
}

absl::Status MessageFailure::AllLeft(const Message& message) const {
  return MakeError(WEFT_PEER_LOST, FieldsFor(message, -1),
                   fmt::format("{}all other ranks have left the group (they destroyed their "
                               "handles), nobody will {}",
                               Heading(message), OtherHalf(message)));
}

absl::Status MessageFailure::Local(const absl::Status& cause) const {
  ErrorFields fields = FieldsOf(cause);
  fields.group = group_;
  return MakeError(
      ResultOf(cause), fields,
      fmt::format("messages on group {}: {}: {}", group_, reporter_.names().NameOf(state_.rank),
                  std::string(cause.message())));
}

}  // namespace weft
