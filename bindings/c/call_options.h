// The options of one call, as callers give them.
//
//   weft_call_t options{};
//   WEFT_RETURN_IF_ERROR(ReadCallOptions("send", call, &options));
//
// Thread-safety: pure functions.
#pragma once

#include "weft/types.h"

#include "absl/status/status.h"
#include "comm/group/call_key.h"
#include "comm/group/collective.h"

namespace weft {

// True if `call` is of this library's version and, as far as it is right, says no more than *extras then does: such a call
// may be one that its group has done before.
inline bool ReadExtras(const weft_call_t& call, CallExtras* extras) {
  if (call.struct_size != sizeof(weft_call_t)) return false;  // the rest may not be there
  *extras = {.timeout_ns = call.timeout_ns,
             .tag = call.tag,
             .priority = call.priority,
             .background = (call.fields & WEFT_CALL_BACKGROUND) != 0};
  return call.algorithm == nullptr && (call.fields & ~WEFT_CALL_BACKGROUND) == 0 &&
         call.numerics == WEFT_NUMERICS_CANONICAL && call.stream == nullptr && call.timeout_ns >= 0;
}

// Copies `given` (may be NULL) over the defaults in *options and checks what can be checked without the
// call's other arguments; the algorithm is left to the caller. Sentences begin with `call`.
absl::Status ReadCallOptions(const char* call, const weft_call_t* given, weft_call_t* options);

// The algorithm that a caller names, or NULL, and whether it insists on it (WEFT_CALL_STRICT_ALGORITHM in `fields`).
// INVALID_ARGUMENT if there is none of that name.
absl::Status ReadAlgorithm(const char* call, const char* name, uint32_t fields,
                           Collective* collective);

// UNSUPPORTED if the call asks for a wire type other than `dtype`, that of its elements. A `dtype` that is none is
// found elsewhere.
absl::Status CheckWireDtype(const char* call, const weft_call_t& options, weft_dtype_t dtype);

}  // namespace weft
