// The way from a checked C call to its group.
//
//   return Issue(MakeCallKey(OpKind::kAllReduce, ...), in, out, group, call, work);
//
// Thread-safety: any thread.
#pragma once

#include <memory>

#include "weft/types.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "bindings/c/batch.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "comm/group/call_key.h"
#include "comm/group/collective.h"
#include "comm/group/process_group.h"

namespace weft {

// Starts an operation and hands its work out. The handle is made first: what has started is always
// handed out.
template <typename Start>
absl::Status StartAs(weft_work_t* work, Start&& start) {
  auto made = std::make_unique<weft_work>();
  WEFT_ASSIGN_OR_RETURN(made->work, start());
  *work = made.release();
  return absl::OkStatus();
}

// Checks the call, then runs it or, with `work`, starts it.
weft_result_t IssueChecked(const CallKey& key, const void* in, void* out, weft_group_t group,
                           const weft_call_t* call, weft_work_t* work);

// The same; of a call that the group has started or done before only the buffers are checked.
weft_result_t IssueAsWork(const CallKey& key, const void* in, void* out, weft_group_t group,
                          const weft_call_t* call, weft_work_t* work);

// A blocking call with options, of a group and outside of a batch.
weft_result_t IssueWithOptions(const CallKey& key, const void* in, void* out, weft_group_t group,
                               const weft_call_t& call);

// Checks and issues any call. A blocking one comes first: it is short, and whatever stood beside it would cost it registers.
inline weft_result_t Issue(const CallKey& key, const void* in, void* out, weft_group_t group,
                           const weft_call_t* call, weft_work_t* work) {
  if (call == nullptr && work == nullptr && IsGroup(group) && !InBatch()) {
    bool done = false;
    const weft_result_t failed = Guarded([&] {
      absl::Status failure;
      done = group->group->TryRunCached(key, in, out, &failure);
      return failure;
    });
    if (done || failed != WEFT_SUCCESS) return failed;
  }
  if (work != nullptr) return IssueAsWork(key, in, out, group, call, work);
  if (call != nullptr && IsGroup(group) && !InBatch()) {
    return IssueWithOptions(key, in, out, group, *call);
  }
  return IssueChecked(key, in, out, group, call, work);
}

// For the forms that need to know the group before the call can be put together.
using CollectiveMaker = absl::Status (*)(const ProcessGroup& group, const void* arguments,
                                         BlockLayout* layout, Collective* collective);
weft_result_t IssueLaidOut(OpKind kind, CollectiveMaker make, const void* arguments,
                           weft_group_t group, const weft_call_t* call, weft_work_t* work);

}  // namespace weft
