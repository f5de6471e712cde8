#include "comm/node/reconfigure_report.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

using EndKind = ReconfigureOutcome::Kind;

}  // namespace

std::string ReconfigureReport::Heading(const std::string& group) {
  return StrCat("reconfiguring group ", group, ": ");
}

absl::Status ReconfigureReport::Say(weft_result_t result, const ErrorFields& fields,
                                    std::string_view what) const {
  return MakeError(result, fields, StrCat(Heading(), what));
}

absl::Status ReconfigureReport::WhyNot(const ReconfigureOutcome& outcome,
                                       const absl::Status& own) const {
  const int rank = outcome.rank;
  const bool of_ranks = outcome.kind != EndKind::kNoNewcomers && outcome.kind != EndKind::kNotGrown;
  if (outcome.attempt != attempt_.number() || rank >= state_.size ||
      (of_ranks && outcome.other >= state_.size)) {
    return Say(WEFT_TIMEOUT, {.group = failures_.names().group()},
               "the other ranks have given up meanwhile, and tried again");
  }
  const ErrorFields fields = failures_.names().FieldsOf(rank);
  const std::string name = failures_.names().NameOf(rank);
  const bool is_own = rank == state_.rank;
  switch (outcome.kind) {
    case EndKind::kPeerLost:
      return ListedRankIsGone(rank);
    case EndKind::kMismatch:
      return Say(WEFT_MISMATCH, fields,
                 fmt::format("rank {} passed another list of members than rank {}; this "
                             "rank, {}, passed {}",
                             state_.GroupRank(rank), state_.GroupRank(outcome.other),
                             state_.GroupRank(state_.rank),
                             wished_.empty() ? "none" : fmt::format("{}", wished_)));
    case EndKind::kTimeout:
    case EndKind::kStuck:
      return TooLate(rank, outcome.other, outcome.kind == EndKind::kStuck);
    case EndKind::kInterrupted:
      return Interrupted(name, fields);
    case EndKind::kNoSegment:
      if (is_own) return Annotate(own, Heading());
      return Say(WEFT_REMOTE_ERROR, fields,
                 StrCat(name, " could not make the shared segment; its own error says why"));
    case EndKind::kNoStore:
      if (is_own) return Annotate(own, Heading());
      return Say(WEFT_REMOTE_ERROR, fields,
                 StrCat(name, " could not ask its store who would join; its own error says why"));
    case EndKind::kNoNewcomers:
      return Say(
          WEFT_TIMEOUT, {.group = failures_.names().group()},
          fmt::format("{} of {} processes that were to join had come before the deadline of "
                      "rank {}; they call weft_group_join, or are started again by weftrun",
                      outcome.other, std::count(wished_.begin(), wished_.end(), kNewRank), rank));
    case EndKind::kNotGrown:
      return NotGrown(outcome, own);
    default:
      return Say(WEFT_CORRUPT, fields, "the word that decides cannot have been written by a rank");
  }
}

absl::Status ReconfigureReport::Interrupted(std::string_view name,
                                            const ErrorFields& fields) const {
  return Say(WEFT_ABORTED, fields,
             StrCat(name, " was interrupted by its program (weft_set_interrupt)"));
}

// Who has met with the same says what it has met with.
absl::Status ReconfigureReport::NotGrown(const ReconfigureOutcome& outcome,
                                         const absl::Status& own) const {
  const auto why = static_cast<weft_result_t>(outcome.other);
  if (outcome.rank == state_.rank || ResultOf(own) == why || ResultOf(own) == WEFT_INTERRUPTED) {
    return Annotate(own, Heading());
  }
  const ErrorFields fields = failures_.names().FieldsOf(outcome.rank);
  const std::string name = failures_.names().NameOf(outcome.rank);
  if (why == WEFT_INTERRUPTED) return Interrupted(name, fields);
  return Say(
      WEFT_REMOTE_ERROR, fields,
      StrCat(name, " could not make the group with those that join; its own error says why"));
}

absl::Status ReconfigureReport::ListedRankIsGone(int rank) const {
  const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(rank)]->Ended();
  ErrorFields fields = failures_.names().FieldsOf(rank);
  if (exit) {
    fields.signal = exit->signal;
    fields.exit_code = exit->exit_code;
  }
  return Say(WEFT_PEER_LOST, fields,
             fmt::format("{} is listed as a member, and {}; list ranks that live, or none for all "
                         "of them",
                         failures_.names().NameOf(
                             rank, fmt::format("host {}, pid {}", fields.host, fields.pid)),
                         exit ? exit->ToString() : "has left the group (it destroyed its handle)"));
}

// With all others that have not come.
absl::Status ReconfigureReport::TooLate(int rank, int finder, bool voted) const {
  std::vector<std::string> missing{failures_.WhereIs(rank)};
  for (int other = 0; other < state_.size && !voted; ++other) {
    if (other == rank || attempt_.board().HasVoted(other, attempt_.number())) continue;
    if (!attempt_.Gone(other)) missing.push_back(failures_.WhereIs(other));
  }
  const char* const what = voted ? "called weft_group_reconfigure, but did not go on"
                           : of_making_
                               ? "did not say whether it has the group with those that join"
                               : "did not call weft_group_reconfigure";
  return Say(WEFT_TIMEOUT, failures_.names().FieldsOf(rank),
             fmt::format("{} {} before the deadline of rank {}", fmt::join(missing, ", "), what,
                         state_.GroupRank(finder)));
}

}  // namespace weft
