#include "comm/node/group_work.h"

#include "comm/group/progress.h"
#include "comm/node/node_group.h"

namespace weft {

bool GroupWork::Test() {
  if (ended() || !group_->here()) return ended();
  WaitTarget target;
  group_->queue().TryStep(&target);
  return ended();
}

const void* GroupWork::moved_with() const {
  return group_.get();
}

// A visitor, so that the group is not closed before Progress has been asked: it forgets groups that close.
void GroupWork::LeaveToProgress() {
  const Visit visit(group_->gate());
  if (visit.inside() && !ended()) group_->queue().AskForProgress(Asking::kNow);
}

}  // namespace weft
