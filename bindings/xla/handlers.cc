#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "weft/xla.h"

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/last_error.h"
#include "bindings/xla/ffi.h"
#include "bindings/xla/frame.h"
#include "bindings/xla/groups.h"
#include "comm/group/call_key.h"
#include "comm/group/message.h"
#include "comm/group/process_group.h"
#include "comm/kernels/dtype.h"

namespace weft::xla {
namespace {

std::atomic<weft_xla_interrupted_t> whom_to_tell{nullptr};

// True if the frame only asks which version this is.
bool AnswerMetadata(const XLA_FFI_CallFrame& frame) {
  for (Extension* extension = frame.extensions; extension != nullptr; extension = extension->next) {
    if (extension->type != kMetadataExtension) continue;
    Metadata* const metadata = reinterpret_cast<MetadataExtension*>(extension)->metadata;
    if (metadata == nullptr) return true;
    metadata->version.major = kVersionMajor;
    metadata->version.minor = kVersionMinor;
    metadata->traits = 0;
    return true;
  }
  return false;
}

XLA_FFI_Error* ToXla(const Api* api, const absl::Status& status) {
  if (status.ok()) return nullptr;
  if (api == nullptr || api->struct_size < sizeof(Api) || api->create_error == nullptr) {
    LogError("a call by XLA failed and has no way to say so: ", status.message());
    return nullptr;
  }
  const std::string message(status.message());
  ErrorArguments arguments{.struct_size = sizeof(arguments),
                           .message = message.c_str(),
                           .code = static_cast<int>(status.code())};
  return api->create_error(&arguments);
}

// What all handlers have around their operation.
template <typename Operation>
XLA_FFI_Error* Handle(const char* name, const XLA_FFI_CallFrame* call, Operation&& operation) {
  if (call == nullptr || AnswerMetadata(*call) || call->stage != kExecuteStage) return nullptr;
  absl::Status status;
  try {
    const Frame frame(name, *call);
    status = call->struct_size < sizeof(*call)
                 ? frame.Bad(StrCat("the frame has ", call->struct_size, " bytes"))
                 : operation(frame);
  } catch (...) {
    status = StatusOfException();
  }
  const weft_xla_interrupted_t told = whom_to_tell.load();
  if (SetLastError(status) == WEFT_INTERRUPTED && told != nullptr) told();
  return ToXla(call->api, status);
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> ReadGroup(const Frame& frame) {
  WEFT_ASSIGN_OR_RETURN(const int64_t number, frame.Number("group"));
  return GroupOf(frame.name(), number);
}

absl::StatusOr<int64_t> TimeoutNsOf(const Frame& frame) {
  WEFT_ASSIGN_OR_RETURN(const int64_t timeout_ns, frame.NumberOr("timeout_ns", 0));
  if (timeout_ns < 0) return frame.Bad("timeout_ns is negative");
  return timeout_ns;
}

absl::Status NoElements(const Frame& frame, ElementType type) {
  return frame.Bad(StrCat("elements of XLA's type ", static_cast<int>(type),
                          " cannot be moved, or not be combined by this op"));
}

// Of the reductions, those whose elements are single and that need no registration.
absl::StatusOr<weft_op_t> OpOf(const Frame& frame) {
  WEFT_ASSIGN_OR_RETURN(const int64_t op, frame.Number("op"));
  if ((op < WEFT_SUM || op > WEFT_AVG) && (op < WEFT_BIT_AND || op > WEFT_BIT_XOR)) {
    return frame.Bad(StrCat("op ", op, " is none that XLA's arrays can have"));
  }
  return static_cast<weft_op_t>(op);
}

void FillWithZeros(const Array& array, const Elements& elements) {
  const size_t bytes = array.elements * elements.per_element * DtypeSize(elements.dtype);
  if (bytes > 0) std::memset(array.data, 0, bytes);
}

// weft's count for one rank, from the shapes.
absl::StatusOr<size_t> CountOf(const Frame& frame, const OpTraits& traits, const Arrays& arrays,
                               const Elements& elements, int size) {
  const size_t in_blocks = traits.in_blocks ? static_cast<size_t>(size) : 1;
  const size_t out_blocks = traits.out_blocks ? static_cast<size_t>(size) : 1;
  const size_t count = arrays.in.elements / in_blocks;
  size_t out_elements = 0;
  if (arrays.in.elements % in_blocks != 0 ||
      __builtin_mul_overflow(count, out_blocks, &out_elements) ||
      out_elements != arrays.out.elements) {
    return frame.Bad(StrCat("the operand has ", arrays.in.elements, " elements and the result ",
                            arrays.out.elements, ", which does not fit a group of ", size));
  }
  size_t scaled = 0;
  if (__builtin_mul_overflow(count, elements.per_element, &scaled)) {
    return frame.Bad(StrCat("the operand has ", arrays.in.elements, " elements"));
  }
  return scaled;
}

absl::Status RunCollective(ProcessGroup& group, const CallKey& key, const Arrays& arrays,
                           int64_t timeout_ns) {
  absl::Status failure;
  if (group.TryRunCached(key, arrays.in.data, arrays.out.data, {.timeout_ns = timeout_ns},
                         &failure) ||
      !failure.ok()) {
    return failure;
  }
  Collective call = CollectiveOf(key, arrays.in.data, arrays.out.data);
  call.timeout_ns = timeout_ns;
  WEFT_RETURN_IF_ERROR(CheckCollective(call, group.rank(), group.size()));
  return group.Run(call);
}

absl::Status DoCollective(const Frame& frame, OpKind kind) {
  const OpTraits& traits = TraitsOf(kind);
  WEFT_ASSIGN_OR_RETURN(const auto group, ReadGroup(frame));
  WEFT_ASSIGN_OR_RETURN(const int64_t timeout_ns, TimeoutNsOf(frame));
  const bool barrier = kind == OpKind::kBarrier;
  WEFT_ASSIGN_OR_RETURN(const Arrays arrays, frame.ReadArrays({.in = !barrier, .out = !barrier}));
  weft_op_t op = WEFT_SUM;
  int root = 0;
  if (traits.reduces) {
    WEFT_ASSIGN_OR_RETURN(op, OpOf(frame));
  }
  if (HasRoot(kind)) {
    WEFT_ASSIGN_OR_RETURN(root, frame.SmallNumber("root"));
  }
  if (arrays.in.type != arrays.out.type) return frame.Bad("operand and result differ in type");
  const auto elements = traits.reduces ? CombinedAs(arrays.in.type, op) : MovedAs(arrays.in.type);
  if (!elements) return NoElements(frame, arrays.in.type);
  size_t count = 0;
  if (!barrier) {
    WEFT_ASSIGN_OR_RETURN(count, CountOf(frame, traits, arrays, *elements, group->size()));
  }
  WEFT_RETURN_IF_ERROR(RunCollective(*group, MakeCallKey(kind, elements->dtype, op, root, count),
                                     arrays, timeout_ns));
  if (traits.root_out && group->rank() != root) FillWithZeros(arrays.out, *elements);
  return absl::OkStatus();
}

// All of a message but its peer.
absl::StatusOr<Message> MessageOf(const Frame& frame, const Array& array, bool is_send) {
  const auto elements = MovedAs(array.type);
  if (!elements) return NoElements(frame, array.type);
  Message message{.is_send = is_send, .dtype = elements->dtype};
  if (is_send) {
    message.in = array.data;
  } else {
    message.out = array.data;
  }
  if (__builtin_mul_overflow(array.elements, elements->per_element, &message.count)) {
    return frame.Bad(StrCat("there are ", array.elements, " elements"));
  }
  WEFT_ASSIGN_OR_RETURN(const int64_t tag, frame.Number("tag"));
  message.tag = static_cast<uint64_t>(tag);
  WEFT_ASSIGN_OR_RETURN(message.timeout_ns, TimeoutNsOf(frame));
  return message;
}

absl::Status DoMessage(const Frame& frame, bool is_send) {
  WEFT_ASSIGN_OR_RETURN(const auto group, ReadGroup(frame));
  WEFT_ASSIGN_OR_RETURN(const Arrays arrays, frame.ReadArrays({.in = is_send, .out = !is_send}));
  WEFT_ASSIGN_OR_RETURN(Message message,
                        MessageOf(frame, is_send ? arrays.in : arrays.out, is_send));
  WEFT_ASSIGN_OR_RETURN(message.peer, frame.SmallNumber(is_send ? "destination" : "source"));
  WEFT_RETURN_IF_ERROR(CheckMessage(message, group->size()));
  return group->Run(message);
}

absl::Status DoPair(const Frame& frame) {
  WEFT_ASSIGN_OR_RETURN(const auto group, ReadGroup(frame));
  WEFT_ASSIGN_OR_RETURN(const Arrays arrays, frame.ReadArrays({.in = true, .out = true}));
  WEFT_ASSIGN_OR_RETURN(Message send, MessageOf(frame, arrays.in, true));
  WEFT_ASSIGN_OR_RETURN(Message recv, MessageOf(frame, arrays.out, false));
  WEFT_ASSIGN_OR_RETURN(send.peer, frame.SmallNumber("destination"));
  WEFT_ASSIGN_OR_RETURN(recv.peer, frame.SmallNumber("source"));
  const bool sends = send.peer != WEFT_XLA_NOBODY;
  const bool receives = recv.peer != WEFT_XLA_NOBODY;
  if (sends) WEFT_RETURN_IF_ERROR(CheckMessage(send, group->size(), frame.name()));
  if (receives) WEFT_RETURN_IF_ERROR(CheckMessage(recv, group->size(), frame.name()));
  if (sends && receives) {
    WEFT_RETURN_IF_ERROR(CheckPair(send, recv, group->size()));
    return group->RunPair(send, recv);
  }
  if (receives) return group->Run(recv);
  FillWithZeros(arrays.out, *MovedAs(arrays.out.type));
  return sends ? group->Run(send) : absl::OkStatus();
}

XLA_FFI_Error* HandleCollective(OpKind kind, const XLA_FFI_CallFrame* frame) {
  return Handle(OpKindName(kind), frame,
                [kind](const Frame& read) { return DoCollective(read, kind); });
}

}  // namespace
}  // namespace weft::xla

using weft::OpKind;
using weft::xla::HandleCollective;

void weft_xla_set_interrupted(weft_xla_interrupted_t told) {
  weft::xla::whom_to_tell.store(told);
}

XLA_FFI_Error* weft_xla_all_reduce(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kAllReduce, frame);
}

XLA_FFI_Error* weft_xla_reduce(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kReduce, frame);
}

XLA_FFI_Error* weft_xla_broadcast(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kBroadcast, frame);
}

XLA_FFI_Error* weft_xla_all_gather(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kAllGather, frame);
}

XLA_FFI_Error* weft_xla_reduce_scatter(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kReduceScatter, frame);
}

XLA_FFI_Error* weft_xla_gather(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kGather, frame);
}

XLA_FFI_Error* weft_xla_scatter(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kScatter, frame);
}

XLA_FFI_Error* weft_xla_all_to_all(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kAllToAll, frame);
}

XLA_FFI_Error* weft_xla_barrier(XLA_FFI_CallFrame* frame) {
  return HandleCollective(OpKind::kBarrier, frame);
}

XLA_FFI_Error* weft_xla_send(XLA_FFI_CallFrame* frame) {
  return weft::xla::Handle(
      "send", frame, [](const weft::xla::Frame& read) { return weft::xla::DoMessage(read, true); });
}

XLA_FFI_Error* weft_xla_recv(XLA_FFI_CallFrame* frame) {
  return weft::xla::Handle("recv", frame, [](const weft::xla::Frame& read) {
    return weft::xla::DoMessage(read, false);
  });
}

XLA_FFI_Error* weft_xla_sendrecv(XLA_FFI_CallFrame* frame) {
  return weft::xla::Handle("sendrecv", frame, weft::xla::DoPair);
}
