#include "comm/recorder/describe.h"

#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {
namespace {

std::string EndText(const LifecycleEvent& event) {
  return event.signal > 0 ? fmt::format("was killed by signal {}", event.signal)
                          : fmt::format("exited with code {}", event.exit_code);
}

// ", rank 2, at #412": who is to blame, and in which operation.
std::string WhereText(const LifecycleEvent& event) {
  return fmt::format("{}{}", event.rank >= 0 ? fmt::format(", rank {}", event.rank) : "",
                     event.sequence >= 0 ? fmt::format(", at #{}", event.sequence) : "");
}

}  // namespace

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

std::string CalledText(const RecordedCall& call, const PurposeNames* names) {
  return fmt::format("{} {}", IsRefusal(call.purpose) ? "refused" : "called",
                     DescribeArguments(call, names));
}

std::string Describe(const RecordedCall& call) {
  if (IsRefusal(call.purpose)) return CalledText(call, nullptr);
  std::string text = DescribeArguments(call);
  const std::string_view only = OnlySigned(call);
  if (only.empty()) return text;
  return fmt::format("{} (signature of the {} {:08x})", text, only, call.signature);
}

const char* CallName(const RecordedCall& call) {
  return CallName(call.kind, call.purpose);
}

std::string Describe(const RecordedMessage& message) {
  const bool any = message.peer == WEFT_ANY_SOURCE;
  std::string peer = any ? "any rank" : fmt::format("rank {}", message.peer);
  if (any && message.source >= 0) peer += fmt::format(" (rank {})", message.source);
  if (message.is_probe) return fmt::format("probe from {} with {}", peer, TagText(message.tag));
  return fmt::format("{} of {} {} {} {} with {}", message.is_send ? "send" : "recv", message.count,
                     DtypeName(message.dtype), message.is_send ? "to" : "from", peer,
                     TagText(message.tag));
}

std::string Describe(const LifecycleEvent& event) {
  switch (event.kind) {
    case LifecycleKind::kJoined:
      return fmt::format("joined a group of {} ranks, epoch {}", event.other, event.epoch);
    case LifecycleKind::kSplit:
      return fmt::format("was split from group {:016x}, there rank {}", event.other, event.rank);
    case LifecycleKind::kPeerEnded:
      return fmt::format("found that rank {} {}", event.rank, EndText(event));
    case LifecycleKind::kFailed:
      return fmt::format("ended the group with result {}{}", event.result, WhereText(event));
    case LifecycleKind::kStalled:
      return fmt::format("found that rank {} does not run (state {})", event.rank,
                         static_cast<char>(event.other & 0x7f));
    case LifecycleKind::kStuck:
      return fmt::format("was reported to be stuck{}", WhereText(event));
    case LifecycleKind::kAcknowledged:
      return fmt::format("saw that the group has ended with result {}{}", event.result,
                         WhereText(event));
    case LifecycleKind::kLeaving:
      return "left the group";
    case LifecycleKind::kReconfigured:
      return fmt::format("left epoch {} for epoch {}", event.epoch, event.other);
  }
  return "";
}

const char* MessageStateName(MessageState state) {
  switch (state) {
    case MessageState::kIssued:
      return "issued";
    case MessageState::kMatched:
      return "matched";
    case MessageState::kDone:
      return "done";
    case MessageState::kFailed:
      return "failed";
  }
  return "unknown";
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
