#include "cli/weftctl/explained_call.h"

#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"

namespace weft {
namespace {

absl::Status ReadOperation(const std::string& name, OpKind* kind) {
  for (int i = 0; i < kOpKindCount; ++i) {
    *kind = static_cast<OpKind>(i);
    if (name != OpKindName(*kind)) continue;
    if (!HasLayout(*kind)) return absl::OkStatus();
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        StrCat(name, " has a count per rank or buffer, which a command line cannot say; ask ",
               "weft_explain"));
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no operation \"", name, "\"; all_reduce is one"));
}

absl::Status ReadDtype(const std::string& name, weft_dtype_t* dtype) {
  for (const weft_dtype_t one : kDtypes) {
    *dtype = one;
    if (name == DtypeName(one)) return absl::OkStatus();
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no type \"", name, "\"; float32 is one"));
}

// A rank's buffers, and those of all ranks together, must fit in memory.
absl::Status ReadCount(const std::string& text, const std::string& dtype, Collective* call) {
  int64_t bytes = 0;
  if (!ParseBytes(text, &bytes) || bytes < 0 || bytes > INT64_MAX / (1 << 16)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("\"", text, "\" is no number of bytes like 4096 or 64K"));
  }
  const auto size = static_cast<int64_t>(DtypeSize(call->dtype));
  if (bytes % size != 0) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(bytes, " bytes are not a whole number of ", dtype));
  }
  call->count = static_cast<size_t>(bytes / size);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Collective> ReadExplainedCall(const std::string& operation, const std::string& bytes,
                                             const std::string& dtype) {
  Collective call{.op = WEFT_SUM};
  WEFT_RETURN_IF_ERROR(ReadOperation(operation, &call.kind));
  WEFT_RETURN_IF_ERROR(ReadDtype(dtype, &call.dtype));
  WEFT_RETURN_IF_ERROR(ReadCount(bytes, dtype, &call));
  if (TraitsOf(call.kind).reduces) {
    WEFT_RETURN_IF_ERROR(CheckReduction(call.dtype, call.op, nullptr));
  }
  return call;
}

}  // namespace weft
