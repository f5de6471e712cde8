#include "weft/iov.h"

#include "bindings/c/issue.h"
#include "comm/group/block_layout.h"

namespace weft {
namespace {

struct Arguments {
  const weft_iov_t* parts;
  size_t part_count;
  weft_dtype_t dtype;
  weft_op_t op;
};

absl::Status Make(const ProcessGroup&, const void* given, BlockLayout* layout,
                  Collective* collective) {
  const Arguments& arguments = *static_cast<const Arguments*>(given);
  collective->dtype = arguments.dtype;
  collective->op = arguments.op;
  return LayOutParts(arguments.parts, arguments.part_count, layout, collective);
}

weft_result_t IssueParts(OpKind kind, const Arguments& arguments, weft_group_t group,
                         const weft_call_t* call, weft_work_t* work) {
  return IssueLaidOut(kind, Make, &arguments, group, call, work);
}

}  // namespace
}  // namespace weft

using weft::IssueParts;
using weft::OpKind;

weft_result_t weft_all_reduce_iov(const weft_iov_t* parts, size_t part_count, weft_dtype_t dtype,
                                  weft_op_t op, weft_group_t group, const weft_call_t* call,
                                  weft_work_t* work) {
  return IssueParts(OpKind::kAllReduceIov, {parts, part_count, dtype, op}, group, call, work);
}

weft_result_t weft_all_gather_iov(const weft_iov_t* parts, size_t part_count, weft_dtype_t dtype,
                                  weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return IssueParts(OpKind::kAllGatherIov, {parts, part_count, dtype, WEFT_SUM}, group, call, work);
}

weft_result_t weft_reduce_scatter_iov(const weft_iov_t* parts, size_t part_count,
                                      weft_dtype_t dtype, weft_op_t op, weft_group_t group,
                                      const weft_call_t* call, weft_work_t* work) {
  return IssueParts(OpKind::kReduceScatterIov, {parts, part_count, dtype, op}, group, call, work);
}
