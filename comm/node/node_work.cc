#include "comm/node/node_work.h"

#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/node_group.h"

namespace weft {

NodeWork::NodeWork(std::shared_ptr<NodeGroup> group, const PreparedCall& prepared,
                   int64_t timeout_ns)
    : GroupWork(std::move(group)), prepared_(prepared), deadline_{timeout_ns} {
  ForEachBuffer([](const void* memory) { ProcessHeap().Pin(memory); });
}

NodeWork::~NodeWork() {
  if (!ended()) ForEachBuffer([](const void* memory) { ProcessHeap().Unpin(memory); });
}

template <typename Visit>
void NodeWork::ForEachBuffer(Visit&& visit) const {
  visit(prepared_.call.in);
  if (prepared_.call.out != prepared_.call.in) visit(prepared_.call.out);
  if (!TraitsOf(prepared_.call.kind).iov) return;
  for (const weft_iov_t& part : prepared_.call.layout->parts) {
    visit(part.in);
    visit(part.out);
  }
}

void NodeWork::End() {
  ForEachBuffer([](const void* memory) { ProcessHeap().Unpin(memory); });
  SetEnded();
  NotifyAll(group().queue().woken());
}

absl::Status NodeWork::Wait(int64_t timeout_ns) {
  if (ended()) return status_;
  const bool in_time = group().queue().Await(*this, timeout_ns);
  // A callback may have forked meanwhile: what returns in its child is the rest of the parent's call.
  if (!group().here()) return group().Forked();
  if (!in_time && Interrupted()) return InterruptedError("weft_work_wait");
  if (!in_time) return MakeError(WEFT_IN_PROGRESS, "the operation has not ended yet");
  return status_;
}

}  // namespace weft
