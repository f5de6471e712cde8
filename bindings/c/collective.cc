#include "weft/collective.h"

#include "bindings/c/issue.h"

using weft::MakeCallKey;
using weft::OpKind;

weft_result_t weft_all_reduce(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_op_t op, weft_group_t group, const weft_call_t* call,
                              weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kAllReduce, dtype, op, 0, count), in, out, group, call,
                     work);
}

weft_result_t weft_reduce(const void* in, void* out, size_t count, weft_dtype_t dtype, weft_op_t op,
                          int root, weft_group_t group, const weft_call_t* call,
                          weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kReduce, dtype, op, root, count), in, out, group, call,
                     work);
}

weft_result_t weft_broadcast(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                             weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kBroadcast, dtype, WEFT_SUM, root, count), in, out, group,
                     call, work);
}

weft_result_t weft_all_gather(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kAllGather, dtype, WEFT_SUM, 0, count), in, out, group,
                     call, work);
}

weft_result_t weft_reduce_scatter(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                  weft_op_t op, weft_group_t group, const weft_call_t* call,
                                  weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kReduceScatter, dtype, op, 0, count), in, out, group, call,
                     work);
}

weft_result_t weft_scan(const void* in, void* out, size_t count, weft_dtype_t dtype, weft_op_t op,
                        weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kScan, dtype, op, 0, count), in, out, group, call, work);
}

weft_result_t weft_exscan(const void* in, void* out, size_t count, weft_dtype_t dtype, weft_op_t op,
                          weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kExscan, dtype, op, 0, count), in, out, group, call, work);
}

weft_result_t weft_gather(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                          weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kGather, dtype, WEFT_SUM, root, count), in, out, group,
                     call, work);
}

weft_result_t weft_scatter(const void* in, void* out, size_t count, weft_dtype_t dtype, int root,
                           weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kScatter, dtype, WEFT_SUM, root, count), in, out, group,
                     call, work);
}

weft_result_t weft_all_to_all(const void* in, void* out, size_t count, weft_dtype_t dtype,
                              weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kAllToAll, dtype, WEFT_SUM, 0, count), in, out, group,
                     call, work);
}

weft_result_t weft_barrier(weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return weft::Issue(MakeCallKey(OpKind::kBarrier, WEFT_UINT8, WEFT_SUM, 0, 0), nullptr, nullptr,
                     group, call, work);
}
