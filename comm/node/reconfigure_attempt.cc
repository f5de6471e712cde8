#include "comm/node/reconfigure_attempt.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/wait.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

using EndKind = ReconfigureOutcome::Kind;

constexpr int64_t kLookAtVotersNs = 2'000'000;
constexpr WaitPolicy kVotePolicy{.spins = 0, .yields = 50};

}  // namespace

ReconfigureAttempt::ReconfigureAttempt(const NodeState& state, FailureReporter& failures,
                                       const ReconfigureOutcome& before)
    : state_(state),
      failures_(failures),
      board_(state.segment.reconfigure_board()),
      before_(before) {}

bool ReconfigureAttempt::Gone(int rank) {
  if (rank == state_.rank) return false;
  if (state_.control(rank).state.load(std::memory_order_seq_cst) >= RankState::kLeaving) {
    return true;
  }
  const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(rank)]->Ended();
  if (exit && !state_.aborted()) failures_.Raise(failures_.PeerLost(nullptr, rank, *exit));
  return exit.has_value();
}

std::vector<ReconfigureVoter> ReconfigureAttempt::Look() {
  std::vector<ReconfigureVoter> voters;
  voters.reserve(static_cast<size_t>(state_.size));
  for (int rank = 0; rank < state_.size; ++rank)
    voters.push_back({.gone = Gone(rank), .vote = board_.VoteOf(rank, number())});
  return voters;
}

bool ReconfigureAttempt::Decide(EndKind kind, int rank, int other) const {
  return board_.Decide(before_, {.attempt = number(),
                                 .kind = kind,
                                 .rank = static_cast<uint8_t>(rank),
                                 .other = static_cast<uint8_t>(other)});
}

ReconfigureOutcome ReconfigureAttempt::Agree(const Patience& patience, const Rule& rule,
                                             const Lead& lead) {
  NoticeTimes notices(MonotonicNs());
  while (!Decided()) {
    const int votes = board_.Votes(number());
    const ReconfigureMove move = rule(Look());
    if (Move(move, lead)) continue;
    const bool waits_for_leader = move.voted && move.awaited != state_.rank;
    const int64_t end_ns = Later(patience.deadline_ns, waits_for_leader ? patience.leader_ns : 0);
    const int64_t now_ns = MonotonicNs();
    // Who leads decides itself whom it has waited for in vain, when it looks again.
    if (now_ns >= end_ns && move.kind == ReconfigureMove::Kind::kLead) continue;
    if (now_ns >= end_ns) {
      (void)Decide(move.voted ? EndKind::kStuck : EndKind::kTimeout, move.awaited, state_.rank);
      continue;
    }
    if (now_ns >= patience.finish_ns && !move.voted && !state_.aborted()) {
      failures_.Raise(failures_.Aborted("it is being reconfigured"));
    }
    if (const int64_t waited_s = notices.Due(now_ns); waited_s > 0)
      SayAwaited(move, patience.awaited, waited_s);
    AwaitChange(votes, end_ns - now_ns);
    if (Interrupted()) (void)Decide(EndKind::kInterrupted, state_.rank, state_.rank);
  }
  return board_.Outcome();
}

// Those that have not voted; or else the one that leads.
void ReconfigureAttempt::SayAwaited(const ReconfigureMove& move, const char* awaited,
                                    int64_t waited_s) {
  std::vector<std::string> late;
  for (int rank = 0; rank < state_.size; ++rank) {
    if (!board_.HasVoted(rank, number()) && !Gone(rank)) late.push_back(failures_.WhereIs(rank));
  }
  std::string whom = fmt::format("{} {}", fmt::join(late, ", "), awaited);
  const bool leads = move.kind == ReconfigureMove::Kind::kLead || move.awaited < 0;
  if (late.empty() && leads)
    whom = "processes that are to join: they call weft_group_join, or weftrun starts them again";
  if (late.empty() && !leads) whom = failures_.WhereIs(move.awaited) + ", which leads, to go on";
  LogWarn("reconfiguring group ", failures_.names().group(), ": rank ",
          state_.GroupRank(state_.rank), " has waited ", waited_s, " s for ", whom);
}

// True if this rank has done what was to be done.
bool ReconfigureAttempt::Move(const ReconfigureMove& move, const Lead& lead) const {
  switch (move.kind) {
    case ReconfigureMove::Kind::kWait:
      return false;
    case ReconfigureMove::Kind::kDecide:
      (void)Decide(move.outcome.kind, move.outcome.rank, move.outcome.other);
      return true;
    case ReconfigureMove::Kind::kLead:
      return lead(move.members);
  }
  return false;
}

void ReconfigureAttempt::AwaitChange(int votes, int64_t left_ns) const {
  Deadline brief{std::min(left_ns, kLookAtVotersNs)};
  WaitUntil(
      board_.events(), kVotePolicy, brief,
      [&] { return Decided() || board_.Votes(number()) != votes; }, [] { return Interrupted(); });
}

}  // namespace weft
