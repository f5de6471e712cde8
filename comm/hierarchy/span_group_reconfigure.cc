// SpanGroup::Reconfigure. Each round makes a group of those that live, and asks in it whether all want the same. Where another rank dies
// meanwhile that group has ended, and the next round is about it. Nothing touches a group's memory when it is made anew: it is closed
// before, once all have agreed.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/hierarchy/span_group.h"
#include "comm/hierarchy/span_reconfigure.h"
#include "fmt/format.h"

namespace weft {

absl::StatusOr<std::shared_ptr<ProcessGroup>> SpanGroup::Reconfigure(
    const std::vector<int>& members, const GroupOptions& options) {
  if (!origin_.here() || !succession_.has_core()) WEFT_RETURN_IF_ERROR(Prepare());
  WEFT_RETURN_IF_ERROR(SpanReconfigure::Check(core_, members, options_.name));
  GroupOptions inherited = options_;
  inherited.timeout_ns = timeout_ns_.load();
  SpanReconfigure making(core_.membership, members, options, inherited);
  // What is made anew, and its group, if it has one: an attempt before may have come no further.
  SpanCore core = core_;
  std::shared_ptr<SpanGroup> group = shared_from_this();
  if (std::optional<SpanCore> left = succession_.core()) {
    core = *std::move(left);
    group = succession_.next();
  }
  const auto remake = [&](const SpanReconfigure::Cut& cut) -> absl::StatusOr<SpanPart> {
    if (group != nullptr) {
      group->succession_.Begin();
      group->parts_->Fail(MakeError(WEFT_ABORTED, {.group = options_.name},
                                    fmt::format("group {} was reconfigured", options_.name)));
      group->Close();
    }
    succession_.Keep(core, nullptr);
    group = nullptr;
    WEFT_ASSIGN_OR_RETURN(SpanPart next, making.Remake(core, cut));
    if (next.core.net != nullptr) {
      group = std::make_shared<SpanGroup>(next.core, next.rank, next.options, isa_, nullptr);
      core = std::move(next.core);
      succession_.Keep(core, group);
    }
    return next;
  };
  while (true) {
    WEFT_ASSIGN_OR_RETURN(SpanReconfigure::Cut cut, making.Agree(core));
    WEFT_ASSIGN_OR_RETURN(SpanPart next, remake(cut));
    if (group != nullptr) {
      const absl::StatusOr<std::vector<int>> wanted = making.Vote(*group, core);
      if (!wanted.ok() && making.MayTryAgain(group->error())) continue;
      WEFT_RETURN_IF_ERROR(wanted.status());
      if (SpanReconfigure::IsOther(*wanted, *group)) {
        absl::StatusOr<SpanPart> narrowed = remake(SpanReconfigure::Narrow(core, *wanted));
        if (!narrowed.ok() && making.MayTryAgain(narrowed.status())) continue;
        WEFT_RETURN_IF_ERROR(narrowed.status());
        next = *std::move(narrowed);
      }
    }
    succession_.Forget();
    if (group != nullptr) return std::shared_ptr<ProcessGroup>(group);
    return next.on_one_island;
  }
}

}  // namespace weft
