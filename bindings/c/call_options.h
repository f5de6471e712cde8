// The options of one call, as callers give them.
//
//   weft_call_t options{};
//   WEFT_RETURN_IF_ERROR(ReadCallOptions("send", call, &options));
//
// Thread-safety: a pure function.
#pragma once

#include "weft/types.h"

#include "absl/status/status.h"

namespace weft {

// Copies `given` (may be NULL) over the defaults in *options and checks what can be checked without the
// call's other arguments; the algorithm is left to the caller. Sentences begin with `call`.
absl::Status ReadCallOptions(const char* call, const weft_call_t* given, weft_call_t* options);

}  // namespace weft
