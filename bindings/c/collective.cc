#include "weft/collective.h"

#include "bindings/c/issue.h"

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

weft_result_t weft_gather(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                          weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(
      {.kind = OpKind::kGather, .dtype = dtype, .root = root, .count = count, .in = in, .out = out},
      group, call, work);
}

weft_result_t weft_scatter(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                           weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kScatter,
                      .dtype = dtype,
                      .root = root,
                      .count = count,
                      .in = in,
                      .out = out},
                     group, call, work);
}

weft_result_t weft_all_to_all(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(
      {.kind = OpKind::kAllToAll, .dtype = dtype, .count = count, .in = in, .out = out}, group,
      call, work);
}

weft_result_t weft_barrier(weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue({.kind = OpKind::kBarrier}, group, call, work);
}
