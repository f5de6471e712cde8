#include "comm/hierarchy/span_message_failure.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "comm/hierarchy/span_messages.h"
#include "fmt/format.h"

namespace weft {
namespace {

// "recv of 4096 float32 with tag 7 on group dp: "
std::string MessageHeading(const Message& message, const ErrorFields& fields) {
  return fmt::format("{} on group {}: ", MessageText(message), fields.group);
}

}  // namespace

absl::Status DifferentMessage(const SpanMessage& failed, ErrorFields fields, int rank) {
  const Message& message = failed.message;
  fields.operation = MessageName(message);
  const std::string mine = ElementsText(message.count, message.dtype);
  const std::string other =
      ElementsOfSignature(failed.data.other_signature, failed.data.other_bytes);
  const int peer = failed.awaited();
  return MakeError(
      WEFT_MISMATCH, fields,
      fmt::format("{} on group {}: rank {} sent {} with tag {}, rank {} expects {}; both sides "
                  "must name the same count and type",
                  fields.operation, fields.group, message.is_send ? rank : peer,
                  message.is_send ? mine : other, failed.data.tag, message.is_send ? peer : rank,
                  message.is_send ? other : mine));
}

absl::Status LateMessage(const SpanMessage& late, ErrorFields fields, int rank) {
  const Message& message = late.message;
  fields.operation = MessageName(message);
  const int peer = late.awaited();
  std::string text = MessageHeading(message, fields);
  if (peer == WEFT_ANY_SOURCE) {
    text += fmt::format("no rank sent one to rank {} in time", rank);
  } else if (message.is_send) {
    text += fmt::format("rank {} has not received it from rank {} in time", peer, rank);
  } else if (late.source < 0) {
    text += fmt::format("rank {} did not send one to rank {} in time", peer, rank);
  } else {
    text += fmt::format("all of its {} bytes did not come from rank {} to rank {} in time",
                        late.bytes, peer, rank);
  }
  return MakeError(WEFT_TIMEOUT, fields, text);
}

absl::Status CutOffMessage(const SpanMessage& waiting, ErrorFields fields, int rank,
                           const absl::Status& why) {
  fields.operation = MessageName(waiting.message);
  return MakeError(
      WEFT_UNREACHABLE, fields,
      fmt::format("{}rank {} waits for rank {}, and {}", MessageHeading(waiting.message, fields),
                  rank, waiting.awaited(), FromAbsl(why.message())));
}

}  // namespace weft
