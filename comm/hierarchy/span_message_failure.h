// What is said when a send or receive of a group over several islands does not end well.
//
//   if (const SpanMessage* late = messages.Late(now_ns)) {
//     Find(LateMessage(*late, end.FieldsOf(late->awaited()), rank));
//   }
//
// `fields` are of whom the message waits for, and have the group's name.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "base/status.h"
#include "comm/hierarchy/span_message.h"

namespace weft {

// MISMATCH: of one whose transfer has met another call. `rank` is this one.
absl::Status DifferentMessage(const SpanMessage& failed, ErrorFields fields, int rank);

// TIMEOUT: its deadline has passed.
absl::Status LateMessage(const SpanMessage& late, ErrorFields fields, int rank);

// UNREACHABLE: the link with whom it waits for is lost.
absl::Status CutOffMessage(const SpanMessage& waiting, ErrorFields fields, int rank,
                           const absl::Status& why);

}  // namespace weft
