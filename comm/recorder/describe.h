// What was recorded in words, for error messages and tables.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "comm/group/purpose.h"
#include "comm/recorder/lifecycle.h"
#include "comm/recorder/message_ring.h"
#include "comm/recorder/ring.h"

namespace weft {

// "all_reduce (sum) of 4096 float32", "broadcast of 5 int64 from root 2 to load parameter 7"; what ranks must agree
// on, and no more; "split" for a part of one. What arguments are in the signature only is not said.
std::string DescribeArguments(const RecordedCall& call, const PurposeNames* names = nullptr);

// "called all_reduce (sum) of 4096 float32"; "refused all_reduce" where the rank told the others that it cannot make the call.
std::string CalledText(const RecordedCall& call, const PurposeNames* names);

// As DescribeArguments, with the signature where it alone tells calls apart; "refused all_reduce".
std::string Describe(const RecordedCall& call);

// The first word of it: "broadcast", "split".
const char* CallName(const RecordedCall& call);

// What of the call only its signature tells: "counts", "reduction"; empty if there is nothing.
std::string_view OnlySigned(const RecordedCall& call);

// "send of 8 float32 to rank 1 with tag 7", "recv of 8 float32 from any rank (rank 2) with tag 7".
std::string Describe(const RecordedMessage& message);

// "found that rank 2 was killed by signal 9", "joined a group of 4 ranks, epoch 1".
std::string Describe(const LifecycleEvent& event);

// "issued", "running", "done", "failed".
const char* RecordStateName(RecordState state);

// "issued", "matched", "done", "failed".
const char* MessageStateName(MessageState state);

}  // namespace weft
