#include "weft/vector.h"

#include "bindings/c/guard.h"
#include "bindings/c/issue.h"
#include "comm/group/block_layout.h"

namespace weft {
namespace {

// What one of the calls was given; the fields that it does not have are unset.
struct Arguments {
  const void* in = nullptr;
  void* out = nullptr;
  Blocks in_blocks;
  Blocks out_blocks;
  weft_dtype_t dtype = WEFT_UINT8;
  weft_op_t op = WEFT_SUM;
  int root = 0;
};

absl::Status Make(const ProcessGroup& group, const void* given, BlockLayout* layout,
                  Collective* collective) {
  const Arguments& arguments = *static_cast<const Arguments*>(given);
  collective->in = arguments.in;
  collective->out = arguments.out;
  collective->dtype = arguments.dtype;
  collective->op = arguments.op;
  collective->root = arguments.root;
  return LayOutBlocks(arguments.in_blocks, arguments.out_blocks, group.rank(), group.size(), layout,
                      collective);
}

weft_result_t IssueBlocks(OpKind kind, const Arguments& arguments, weft_group_t group,
                          const weft_call_t* call, weft_work_t* work) {
  return IssueLaidOut(kind, Make, &arguments, group, call, work);
}

}  // namespace
}  // namespace weft

using weft::IssueBlocks;
using weft::OpKind;

weft_result_t weft_all_gather_v(const void* in, void* out, const size_t* counts,
                                const size_t* displacements, weft_dtype_t dtype, weft_group_t group,
                                const weft_call_t* call, weft_work_t* work) {
  return IssueBlocks(OpKind::kAllGatherV,
                     {.in = in, .out = out, .out_blocks = {counts, displacements}, .dtype = dtype},
                     group, call, work);
}

weft_result_t weft_reduce_scatter_v(const void* in, void* out, const size_t* counts,
                                    const size_t* displacements, weft_dtype_t dtype, weft_op_t op,
                                    weft_group_t group, const weft_call_t* call,
                                    weft_work_t* work) {
  return IssueBlocks(
      OpKind::kReduceScatterV,
      {.in = in, .out = out, .in_blocks = {counts, displacements}, .dtype = dtype, .op = op}, group,
      call, work);
}

weft_result_t weft_gather_v(const void* in, size_t count, void* out, const size_t* counts,
                            const size_t* displacements, weft_dtype_t dtype, int root,
                            weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return IssueBlocks(OpKind::kGatherV,
                     {.in = in,
                      .out = out,
                      .in_blocks = {&count, nullptr},
                      .out_blocks = {counts, displacements},
                      .dtype = dtype,
                      .root = root},
                     group, call, work);
}

weft_result_t weft_scatter_v(const void* in, const size_t* counts, const size_t* displacements,
                             void* out, size_t count, weft_dtype_t dtype, int root,
                             weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return IssueBlocks(OpKind::kScatterV,
                     {.in = in,
                      .out = out,
                      .in_blocks = {counts, displacements},
                      .out_blocks = {&count, nullptr},
                      .dtype = dtype,
                      .root = root},
                     group, call, work);
}

weft_result_t weft_all_to_all_v(const void* in, const size_t* in_counts,
                                const size_t* in_displacements, void* out, const size_t* out_counts,
                                const size_t* out_displacements, weft_dtype_t dtype,
                                weft_group_t group, const weft_call_t* call, weft_work_t* work) {
  return IssueBlocks(OpKind::kAllToAllV,
                     {.in = in,
                      .out = out,
                      .in_blocks = {in_counts, in_displacements},
                      .out_blocks = {out_counts, out_displacements},
                      .dtype = dtype},
                     group, call, work);
}
