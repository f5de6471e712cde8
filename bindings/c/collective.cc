#include "weft/collective.h"

#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

absl::Status ReadCall(const Collective& collective, const weft_call_t* given, Collective* out) {
  const char* const name = OpKindName(collective.kind);
  weft_call_t call{};
  WEFT_RETURN_IF_ERROR(ReadConfig(name, given, &call));
  if (call.timeout_ns < 0) return InvalidArgument(name, "timeout_ns is negative");
  if ((call.fields & ~WEFT_CALL_WIRE_DTYPE) != 0) {
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
  if (call.algorithm != nullptr) {
    return CallError(WEFT_UNSUPPORTED, name,
                     StrCat("algorithm \"", call.algorithm,
                            "\": this version chooses the algorithm itself; pass NULL"));
  }
  if (call.stream != nullptr) {
    return InvalidArgument(name, "stream is set, but the group is one of host memory");
  }
  out->timeout_ns = call.timeout_ns;
  out->priority = call.priority;
  out->tag = call.tag;
  return absl::OkStatus();
}

weft_result_t Issue(Collective collective, weft_group_t handle, const weft_call_t* call,
                    weft_work_t* work) {
  return Guarded([&]() -> absl::Status {
    if (handle == nullptr || handle->magic != weft_group::kMagic) {
      return InvalidArgument(OpKindName(collective.kind), "group is NULL or not a group");
    }
    ProcessGroup& group = *handle->group;
    if (call != nullptr) WEFT_RETURN_IF_ERROR(ReadCall(collective, call, &collective));
    WEFT_RETURN_IF_ERROR(CheckCollective(collective, group.rank(), group.size()));
    if (work == nullptr) return group.Run(collective);
    WEFT_ASSIGN_OR_RETURN(WorkRef started, group.Start(collective));
    auto* const made = new weft_work;
    made->work = std::move(started);
    *work = made;
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace weft

using weft::OpKind;

weft_result_t weft_all_reduce(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_op_t op, weft_group_t group, const weft_call_t* call,
                              weft_work_t* work) {
  return weft::Issue(
      {.kind = OpKind::kAllReduce, .dtype = dtype, .op = op, .count = count, .in = in, .out = out},
      group, call, work);
}

weft_result_t weft_reduce(const void* in, void* out, size_t count, weft_dtype_t dtype, weft_op_t op,
                          int root, weft_group_t group, const weft_call_t* call,
                          weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kReduce,
                      .dtype = dtype,
                      .op = op,
                      .root = root,
                      .count = count,
                      .in = in,
                      .out = out},
                     group, call, work);
}

weft_result_t weft_broadcast(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                             weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kBroadcast,
                      .dtype = dtype,
                      .root = root,
                      .count = count,
                      .in = in,
                      .out = out},
                     group, call, work);
}

weft_result_t weft_all_gather(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(
      {.kind = OpKind::kAllGather, .dtype = dtype, .count = count, .in = in, .out = out}, group,
      call, work);
}

weft_result_t weft_reduce_scatter(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                  weft_op_t op, weft_group_t group, const weft_call_t* call,
                                  weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kReduceScatter,
                      .dtype = dtype,
                      .op = op,
                      .count = count,
                      .in = in,
                      .out = out},
                     group, call, work);
}

weft_result_t weft_barrier(weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kBarrier}, group, call, work);
}
