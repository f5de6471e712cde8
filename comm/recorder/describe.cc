#include "comm/recorder/describe.h"

#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {

std::string Describe(const RecordedCall& call) {
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
    text += fmt::format(" by {}", AlgorithmName(static_cast<Algorithm>(call.algorithm)));
  }
  // The same total may be cut differently, and functions of users differ by name; only the signature
  // tells.
  const bool cut = call.kind == OpKind::kAllGatherV || call.kind == OpKind::kReduceScatterV;
  if (traits.reduces && call.op == kOpUser) {
    text += fmt::format(" (signature of the name {:08x})", call.signature);
  } else if (cut || traits.iov) {
    text += fmt::format(" (signature of the counts {:08x})", call.signature);
  }
  return text;
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
