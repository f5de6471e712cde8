#include "comm/node/end_report.h"

#include "base/status.h"
#include "fmt/format.h"

namespace weft {

void EndReport::Acknowledge(const absl::Status& cause) {
  state_.board.Acknowledge(state_.rank);
  NotifyAll(state_.self().waiters);
  if (acknowledged_.exchange(true)) return;
  const ErrorFields fields = FieldsOf(cause);
  state_.lifecycle.Record({.kind = LifecycleKind::kAcknowledged,
                           .epoch = state_.epoch,
                           .rank = fields.rank,
                           .result = ResultOf(cause),
                           .sequence = fields.sequence});
}

void EndReport::Tell(const absl::Status& cause) {
  Acknowledge(cause);
  told_.store(true);
  parts_.Fail(cause);
  dump_.WriteOnce(cause);
}

absl::Status EndReport::Refusal() {
  absl::Status cause = failures_.Cause();
  Acknowledge(cause);
  if (!told_.exchange(true)) {
    parts_.Fail(cause);
    dump_.WriteOnce(cause);
    return cause;
  }
  return MakeError(WEFT_ABORTED, FieldsOf(cause),
                   fmt::format("group {} has ended and takes no more operations: {}", group_,
                               std::string(cause.message())));
}

}  // namespace weft
