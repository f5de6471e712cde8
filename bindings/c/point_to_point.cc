#include "weft/point_to_point.h"

#include "bindings/c/batch.h"
#include "bindings/c/call_options.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/issue.h"
#include "bindings/c/struct_size.h"

namespace weft {
namespace {

// What the calls have in common besides their messages.
struct Tail {
  const char* name;
  weft_group_t group;
  const weft_call_t* call;
  weft_work_t* work;
};

absl::StatusOr<std::shared_ptr<ProcessGroup>> Open(const Tail& tail, weft_dtype_t dtype,
                                                   weft_call_t* call) {
  WEFT_RETURN_IF_ERROR(CheckGroup(tail.name, tail.group));
  WEFT_RETURN_IF_ERROR(ReadCallOptions(tail.name, tail.call, call));
  WEFT_RETURN_IF_ERROR(CheckWireDtype(tail.name, *call, dtype));
  if (call->algorithm != nullptr) {
    return CallError(
        WEFT_UNSUPPORTED, tail.name,
        StrCat("algorithm \"", call->algorithm, "\": messages have only one; pass NULL"));
  }
  return tail.group->group.shared();
}

weft_result_t IssueMessage(Message message, const Tail& tail) {
  return Guarded([&]() -> absl::Status {
    weft_call_t call{};
    WEFT_ASSIGN_OR_RETURN(const auto group, Open(tail, message.dtype, &call));
    message.timeout_ns = call.timeout_ns;
    WEFT_RETURN_IF_ERROR(CheckMessage(message, group->size(), tail.name));
    if (message.info != nullptr) WEFT_RETURN_IF_ERROR(CheckAnswer(tail.name, message.info));
    if (tail.work == nullptr && !InBatch()) return group->Run(message);
    const auto start = [group, message] {
      return group->Start(message);
    };
    if (InBatch()) {
      return NoteInBatch({.group = group, .priority = call.priority, .start = start}, tail.work);
    }
    return StartAs(tail.work, start);
  });
}

weft_result_t IssuePair(Message send, Message recv, const Tail& tail) {
  return Guarded([&]() -> absl::Status {
    weft_call_t call{};
    WEFT_ASSIGN_OR_RETURN(const auto group, Open(tail, send.dtype, &call));
    send.timeout_ns = recv.timeout_ns = call.timeout_ns;
    WEFT_RETURN_IF_ERROR(CheckPair(send, recv, group->size()));
    if (tail.work == nullptr && !InBatch()) return group->RunPair(send, recv);
    const auto start = [group, send, recv] {
      return group->StartPair(send, recv);
    };
    if (InBatch()) {
      return NoteInBatch({.group = group, .priority = call.priority, .start = start}, tail.work);
    }
    return StartAs(tail.work, start);
  });
}

}  // namespace
}  // namespace weft

weft_result_t weft_send(const void* in, size_t count, weft_dtype_t dtype, int destination,
                        uint64_t tag, weft_group_t group, const weft_call_t* call,
                        weft_work_t* work) {
  return weft::IssueMessage(
      {.is_send = true, .in = in, .count = count, .dtype = dtype, .peer = destination, .tag = tag},
      {"send", group, call, work});
}

weft_result_t weft_recv(void* out, size_t count, weft_dtype_t dtype, int source, uint64_t tag,
                        int* sender, weft_group_t group, const weft_call_t* call,
                        weft_work_t* work) {
  return weft::IssueMessage(
      {.out = out, .count = count, .dtype = dtype, .peer = source, .tag = tag, .sender = sender},
      {"recv", group, call, work});
}

weft_result_t weft_recv_info(void* out, size_t count, weft_dtype_t dtype, int source, uint64_t tag,
                             weft_message_info_t* info, weft_group_t group, const weft_call_t* call,
                             weft_work_t* work) {
  return weft::IssueMessage(
      {.out = out, .count = count, .dtype = dtype, .peer = source, .tag = tag, .info = info},
      {"recv_info", group, call, work});
}

weft_result_t weft_probe(int source, uint64_t tag, weft_message_info_t* info, weft_group_t group,
                         const weft_call_t* call, weft_work_t* work) {
  return weft::IssueMessage({.is_probe = true, .peer = source, .tag = tag, .info = info},
                            {"probe", group, call, work});
}

weft_result_t weft_iprobe(int source, uint64_t tag, int* found, weft_message_info_t* info,
                          weft_group_t group) {
  return weft::Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_iprobe";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (found == nullptr) return weft::InvalidArgument(kCall, "found is NULL");
    if (info != nullptr) WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, info));
    const weft::Message probe = {.is_probe = true, .peer = source, .tag = tag, .info = info};
    WEFT_RETURN_IF_ERROR(weft::CheckMessage(probe, group->group->size(), "iprobe"));
    WEFT_ASSIGN_OR_RETURN(const bool there, group->group->TryProbe(probe));
    *found = there ? 1 : 0;
    return absl::OkStatus();
  });
}

weft_result_t weft_sendrecv(const void* in, size_t in_count, int destination, uint64_t in_tag,
                            void* out, size_t out_count, int source, uint64_t out_tag,
                            weft_dtype_t dtype, int* sender, weft_group_t group,
                            const weft_call_t* call, weft_work_t* work) {
  const weft::Message send{.is_send = true,
                           .in = in,
                           .count = in_count,
                           .dtype = dtype,
                           .peer = destination,
                           .tag = in_tag};
  const weft::Message recv{.out = out,
                           .count = out_count,
                           .dtype = dtype,
                           .peer = source,
                           .tag = out_tag,
                           .sender = sender};
  return weft::IssuePair(send, recv, {"sendrecv", group, call, work});
}
