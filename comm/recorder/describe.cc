#include "comm/recorder/describe.h"

#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {

bool HasReduction(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

bool HasRoot(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kBroadcast;
}

bool HasElements(OpKind kind) {
  return kind != OpKind::kBarrier;
}

std::string Describe(const RecordedCall& call) {
  std::string text = OpKindName(call.kind);
  if (HasReduction(call.kind)) text += fmt::format(" ({})", OpName(call.op));
  if (HasElements(call.kind)) text += fmt::format(" of {} {}", call.count, DtypeName(call.dtype));
  if (HasRoot(call.kind)) {
    text += fmt::format(" {} root {}", call.kind == OpKind::kReduce ? "to" : "from", call.root);
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
