#include "bindings/c/call_options.h"

#include <cstring>

#include "bindings/c/guard.h"
#include "bindings/c/struct_size.h"
#include "comm/kernels/dtype.h"

namespace weft {

absl::Status ReadCallOptions(const char* name, const weft_call_t* given, weft_call_t* options) {
  weft_call_t& call = *options;
  WEFT_RETURN_IF_ERROR(ReadConfig(name, given, &call));
  if (call.timeout_ns < 0) return InvalidArgument(name, "timeout_ns is negative");
  constexpr uint32_t kKnown =
      WEFT_CALL_WIRE_DTYPE | WEFT_CALL_BACKGROUND | WEFT_CALL_STREAM | WEFT_CALL_STRICT_ALGORITHM;
  if ((call.fields & ~kKnown) != 0) {
    return InvalidArgument(name, StrCat("fields has unknown bits: ", call.fields));
  }
  if ((call.fields & WEFT_CALL_WIRE_DTYPE) != 0 && DtypeSize(call.wire_dtype) == 0) {
    return InvalidArgument(
        name, StrCat("wire_dtype ", static_cast<int>(call.wire_dtype), " is not a data type"));
  }
  if (call.numerics != WEFT_NUMERICS_CANONICAL && call.numerics != WEFT_NUMERICS_FAST) {
    return InvalidArgument(
        name, StrCat("numerics ", static_cast<int>(call.numerics), " is not canonical or fast"));
  }
  if (call.stream != nullptr || (call.fields & WEFT_CALL_STREAM) != 0) {
    return CallError(WEFT_UNSUPPORTED, name,
                     "stream is set, but the group is one of host memory, which has no streams");
  }
  return absl::OkStatus();
}

absl::Status ReadAlgorithm(const char* call, const char* name, uint32_t fields,
                           Collective* collective) {
  if (name == nullptr) return absl::OkStatus();
  for (int i = 0; i < kNamedProtocolCount; ++i) {
    if (std::strcmp(name, ProtocolName(static_cast<Protocol>(i))) != 0) continue;
    collective->algorithm = static_cast<Protocol>(i);
    collective->strict_algorithm = (fields & WEFT_CALL_STRICT_ALGORITHM) != 0;
    return absl::OkStatus();
  }
  return InvalidArgument(call, StrCat("there is no algorithm \"", name,
                                      "\"; pass NULL or one that weft_explain names"));
}

absl::Status CheckWireDtype(const char* name, const weft_call_t& options, weft_dtype_t dtype) {
  const bool set = (options.fields & WEFT_CALL_WIRE_DTYPE) != 0;
  if (!set || options.wire_dtype == dtype || DtypeSize(dtype) == 0) return absl::OkStatus();
  return CallError(
      WEFT_UNSUPPORTED, name,
      StrCat("wire_dtype ", DtypeName(options.wire_dtype), " with elements of ", DtypeName(dtype),
             ": elements are moved as they are; pass their own type, or leave "
             "WEFT_CALL_WIRE_DTYPE out of fields"));
}

}  // namespace weft
