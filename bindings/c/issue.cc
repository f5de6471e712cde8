#include "bindings/c/issue.h"

#include <utility>

#include "base/per_thread.h"
#include "bindings/c/call_options.h"
#include "bindings/c/op.h"
#include "comm/group/block_layout.h"

namespace weft {
namespace {

// A reduction made at run time, for its number. From then on the call, and its `layout` if it has one, count elements.
absl::Status ReadOp(BlockLayout* layout, Collective* collective) {
  if (!TraitsOf(collective->kind).reduces) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const CustomOp>> custom = CustomOpOf(collective->op);
  if (!custom.ok()) {
    return InvalidArgument(OpKindName(collective->kind), FromAbsl(custom.status().message()));
  }
  collective->op = (*custom)->kind;
  collective->custom = *std::move(custom);
  return CountElements(layout, collective);
}

// A call that does not run at once on this thread.
absl::Status StartOrNote(const Collective& collective, const std::shared_ptr<ProcessGroup>& group,
                         weft_work_t* work) {
  const auto start = [group, collective] {
    return group->Start(collective);
  };
  if (!InBatch()) return StartAs(work, start);
  return NoteInBatch({.group = group, .priority = collective.priority, .start = start}, work);
}

// `layout` is the call's, or nullptr.
absl::Status RunOrStart(Collective& collective, const std::shared_ptr<BlockLayout>& layout,
                        const std::shared_ptr<ProcessGroup>& group, weft_work_t* work) {
  if (collective.op >= WEFT_OP_CUSTOM_FIRST) {
    WEFT_RETURN_IF_ERROR(ReadOp(layout.get(), &collective));
  }
  collective.layout = layout;
  WEFT_RETURN_IF_ERROR(CheckCollective(collective, group->rank(), group->size()));
  if (work == nullptr && !InBatch()) return group->Run(collective);
  return StartOrNote(collective, group, work);
}

// *collective has its kind and its type of elements.
absl::Status ReadCall(const weft_call_t* given, Collective* collective) {
  const char* const name = OpKindName(collective->kind);
  weft_call_t call{};
  WEFT_RETURN_IF_ERROR(ReadCallOptions(name, given, &call));
  WEFT_RETURN_IF_ERROR(ReadAlgorithm(name, call.algorithm, call.fields, collective));
  if (collective->kind != OpKind::kBarrier) {
    WEFT_RETURN_IF_ERROR(CheckWireDtype(name, call, collective->dtype));
  }
  collective->numerics = call.numerics;
  collective->timeout_ns = call.timeout_ns;
  collective->priority = call.priority;
  collective->tag = call.tag;
  collective->background = (call.fields & WEFT_CALL_BACKGROUND) != 0;
  return absl::OkStatus();
}

// A layout for a call. A blocking call reads it on this thread only and so needs no memory of its own.
std::shared_ptr<BlockLayout> NewLayout(bool blocking) {
  if (!blocking) return std::make_shared<BlockLayout>();
  BlockLayout& layout = PerThread<BlockLayout>::Get();
  layout.in_counts.clear();
  layout.in_offsets.clear();
  layout.out_counts.clear();
  layout.out_offsets.clear();
  layout.parts.clear();
  layout.starts.clear();
  layout.hash = 0;
  return std::shared_ptr<BlockLayout>(std::shared_ptr<BlockLayout>(), &layout);
}

}  // namespace

weft_result_t IssueChecked(const CallKey& key, const void* in, void* out, weft_group_t handle,
                           const weft_call_t* call, weft_work_t* work) {
  return Guarded([&]() -> absl::Status {
    Collective collective = CollectiveOf(key, in, out);
    WEFT_RETURN_IF_ERROR(CheckGroup(OpKindName(collective.kind), handle));
    if (call != nullptr) WEFT_RETURN_IF_ERROR(ReadCall(call, &collective));
    return RunOrStart(collective, nullptr, handle->group.shared(), work);
  });
}

weft_result_t IssueAsWork(const CallKey& key, const void* in, void* out, weft_group_t group,
                          const weft_call_t* call, weft_work_t* work) {
  CallExtras extras;
  const bool cachable = call == nullptr || ReadExtras(*call, &extras);
  if (cachable && IsGroup(group) && !InBatch()) {
    bool started = false;
    const weft_result_t failed = Guarded([&] {
      auto made = std::make_unique<weft_work>();
      started = group->group->TryStartCached(key, in, out, extras, &made->work);
      if (started) *work = made.release();
      return absl::OkStatus();
    });
    if (started || failed != WEFT_SUCCESS) return failed;
  }
  return IssueChecked(key, in, out, group, call, work);
}

weft_result_t IssueWithOptions(const CallKey& key, const void* in, void* out, weft_group_t group,
                               const weft_call_t& call) {
  CallExtras extras;
  if (ReadExtras(call, &extras)) {
    bool done = false;
    const weft_result_t failed = Guarded([&] {
      absl::Status failure;
      done = group->group->TryRunCached(key, in, out, extras, &failure);
      return failure;
    });
    if (done || failed != WEFT_SUCCESS) return failed;
  }
  return IssueChecked(key, in, out, group, &call, nullptr);
}

weft_result_t IssueLaidOut(OpKind kind, CollectiveMaker make, const void* arguments,
                           weft_group_t handle, const weft_call_t* call, weft_work_t* work) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(CheckGroup(OpKindName(kind), handle));
    Collective collective{.kind = kind};
    const std::shared_ptr<BlockLayout> layout = NewLayout(work == nullptr && !InBatch());
    WEFT_RETURN_IF_ERROR(make(*handle->group, arguments, layout.get(), &collective));
    if (call != nullptr) WEFT_RETURN_IF_ERROR(ReadCall(call, &collective));
    return RunOrStart(collective, layout, handle->group.shared(), work);
  });
}

}  // namespace weft
