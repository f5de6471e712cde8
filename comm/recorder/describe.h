// Recorded calls in words, for messages and tables.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "comm/recorder/ring.h"

namespace weft {

// "all_reduce (sum) of 4096 float32", "broadcast of 5 int64 from root 2"; what ranks must agree on,
// and no more.
std::string Describe(const RecordedCall& call);

// "issued", "running", "done", "failed".
const char* RecordStateName(RecordState state);

}  // namespace weft
