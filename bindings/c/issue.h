// The way from a checked C call to its group.
//
//   return Issue({.kind = OpKind::kAllReduce, ...}, group, call, work);
//
// Thread-safety: any thread.
#pragma once

#include <memory>

#include "weft/types.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "bindings/c/handles.h"
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
weft_result_t Issue(Collective&& collective, weft_group_t group, const weft_call_t* call,
                    weft_work_t* work);

// For the forms that need to know the group before the call can be put together.
using CollectiveMaker = absl::Status (*)(const ProcessGroup& group, const void* arguments,
                                         BlockLayout* layout, Collective* collective);
weft_result_t IssueLaidOut(OpKind kind, CollectiveMaker make, const void* arguments,
                           weft_group_t group, const weft_call_t* call, weft_work_t* work);

}  // namespace weft
