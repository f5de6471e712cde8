// What is said when a collective of a group over several islands does not end well.
//
//   if (now_ns >= work.deadline_ns()) Find(LateCall(work, end.FieldsOf(work.run().WaitsFor()), rank));
//
// `fields` are of whom the work waits for, or fails with, and have the group's name.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "base/status.h"
#include "comm/hierarchy/span_work.h"

namespace weft {

// MISMATCH: one of its messages has met another call, of rank `other`. `rank` is this one.
absl::Status DifferentCall(const SpanWork& failed, ErrorFields fields, int rank, int other);

// TIMEOUT: its deadline has passed.
absl::Status LateCall(const SpanWork& late, ErrorFields fields, int rank);

// UNREACHABLE: the link with the rank that it waits for, that of `fields`, is lost.
absl::Status CutOffCall(const SpanWork& waiting, ErrorFields fields, int rank,
                        const absl::Status& why);

}  // namespace weft
