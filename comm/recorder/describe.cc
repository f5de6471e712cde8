#include "comm/recorder/describe.h"

#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {

std::string DescribeArguments(const RecordedCall& call, const PurposeNames* names) {
  if (const char* const whole = WholeCallName(UnpackPurpose(call.purpose))) return whole;
  const OpTraits& traits = TraitsOf(call.kind);
  std::string text = traits.name;
  if (traits.reduces) text += fmt::format(" ({})", OpName(call.op));
  if (traits.local_counts) {
    text += fmt::format(" of {}", DtypeName(call.dtype));
  } else if (call.kind != OpKind::kBarrier) {
    text += fmt::format(" of {} {}", call.count, DtypeName(call.dtype));
  }
  if (HasRoot(call.kind)) {
    const bool to = traits.root_out || call.kind == OpKind::kGatherV;
    text += fmt::format(" {} root {}", to ? "to" : "from", call.root);
  }
  if (call.algorithm != 0) {
    text += fmt::format(" by {}", ProtocolName(static_cast<Protocol>(call.algorithm)));
  }
  if (call.numerics == WEFT_NUMERICS_FAST) text += " with numerics fast";
  const std::string purpose = PurposeText(UnpackPurpose(call.purpose), names);
  if (!purpose.empty()) text += " " + purpose;
  return text;
}

// What only the signature tells apart: equal totals may be cut differently, and users' functions differ by name. Calls
// that have a purpose differ in neither.
std::string_view OnlySigned(const RecordedCall& call) {
  const OpTraits& traits = TraitsOf(call.kind);
  const bool cut = call.kind == OpKind::kAllGatherV || call.kind == OpKind::kReduceScatterV;
  if (call.purpose != 0) return "";
  if (traits.reduces && call.op == kOpUser) return "reduction";
  return cut || traits.iov ? "counts" : "";
}

std::string Describe(const RecordedCall& call) {
  const std::string text = DescribeArguments(call);
  const std::string_view only = OnlySigned(call);
  if (only.empty()) return text;
  return fmt::format("{} (signature of the {} {:08x})", text, only, call.signature);
}

const char* CallName(const RecordedCall& call) {
  return CallName(call.kind, call.purpose);
}

const char* RecordStateName(RecordState state) {
  switch (state) {
    case RecordState::kIssued:
      return "issued";
    case RecordState::kRunning:
      return "running";
    case RecordState::kDone:
      return "done";
    case RecordState::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace weft
