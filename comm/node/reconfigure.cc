// The members of a new group without newcomers have each other's memory mapped, so one of them makes the segment and decides for it
// at once (reconfigure_attempt.h). With newcomers they have to meet in a store first: growth.cc.
#include "comm/node/reconfigure.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/number_hash.h"
#include "comm/node/growth.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "comm/node/reconfigure_attempt.h"
#include "comm/node/reconfigure_board.h"
#include "comm/node/reconfigure_report.h"
#include "comm/node/reconfigure_rules.h"

namespace weft {
namespace {

using EndKind = ReconfigureOutcome::Kind;

// How much longer than its own deadline a rank waits for one that leads and waits for newcomers.
constexpr int64_t kLeaderGraceNs = 500'000'000;
constexpr int64_t kFinishNs = 1'000'000'000;  // for operations of a group that works
// How long the others have to say whether they have made a group with newcomers.
constexpr int64_t kVoteNs = 2'000'000'000;

class Reconfiguration {
 public:
  Reconfiguration(const OldGroup& old, const std::vector<int>& wished, const GroupOptions& options)
      : state_(old.state),
        failures_(old.failures),
        failed_(old.failed),
        old_options_(old.options),
        board_(old.state.segment.reconfigure_board()),
        wished_(wished),
        options_(options),
        epoch_(options.epoch > 0 ? options.epoch : old.state.epoch + 1) {
    if (options_.name.empty()) options_.name = old_options_.name;
    if (options_.timeout_ns <= 0) {
      options_.timeout_ns = old_options_.timeout_ns;
      if (options_.init_timeout_ns <= 0) options_.init_timeout_ns = old_options_.init_timeout_ns;
    }
    deadline_ns_ = InitDeadlineNs(options_);
    options_.init_timeout_ns =
        old_options_.init_timeout_ns;  // that of the call is of the call alone
  }

  Reconfiguration(const Reconfiguration&) = delete;
  Reconfiguration& operator=(const Reconfiguration&) = delete;

  ~Reconfiguration() { DropSegment(); }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Run() {
    const ReconfigureOutcome before = board_.Outcome();
    if (before.final()) return OverAlready();
    ReconfigureAttempt attempt(state_, failures_, before);
    attempt.Vote(WishOf(wished_));
    const ReconfigureOutcome outcome = attempt.Agree(
        {.deadline_ns = deadline_ns_,
         .leader_ns = kLeaderGraceNs,
         .finish_ns = Later(MonotonicNs(), kFinishNs)},
        [&](const std::vector<ReconfigureVoter>& ranks) {
          return NextMove(state_.rank, ranks, wished_);
        },
        [&](const std::vector<int>& members) { return Lead(attempt, members); });
    if (outcome.attempt == attempt.number()) {
      if (outcome.kind == EndKind::kNewGroup) return Join(outcome.rank);
      if (outcome.kind == EndKind::kAdmit) return Grow(outcome);
    }
    if (growth_) growth_->CallOff(nullptr);
    return Failed(attempt, outcome, no_group_, /*of_making=*/false);
  }

 private:
  absl::Status Failed(ReconfigureAttempt& attempt, const ReconfigureOutcome& outcome,
                      const absl::Status& own, bool of_making) {
    absl::Status why =
        ReconfigureReport(state_, failures_, attempt, wished_, of_making).WhyNot(outcome, own);
    const bool of_newcomers =
        outcome.kind == EndKind::kNoNewcomers || outcome.kind == EndKind::kNotGrown;
    if (ResultOf(why) == WEFT_TIMEOUT && !of_newcomers) failures_.Raise(why);
    return TakeInterrupt() ? AsInterrupted(why) : why;
  }

  // False if the newcomers are still awaited.
  bool Lead(const ReconfigureAttempt& attempt, const std::vector<int>& members) {
    const bool open = std::find(members.begin(), members.end(), kNewRank) != members.end();
    if (!open) {
      LeadAlone(attempt, members);
      return true;
    }
    if (!growth_) growth_.emplace(state_, failures_, options_, WorldName());
    return growth_->Lead(attempt, members, deadline_ns_, &no_group_);
  }

  // All ranks meet the newcomers, then agree on whether all that live have the group.
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Grow(const ReconfigureOutcome& admitted) {
    if (!growth_) growth_.emplace(state_, failures_, options_, WorldName());
    ReconfigureAttempt attempt(state_, failures_, admitted);
    absl::StatusOr<std::shared_ptr<ProcessGroup>> made =
        growth_->Make(attempt, admitted.rank, deadline_ns_);
    attempt.Vote(static_cast<uint64_t>(ResultOf(made.status())));
    // Those who have waited until their deadline say so at different moments.
    const int64_t vote_ns = Later(std::max(deadline_ns_, MonotonicNs()), kVoteNs);
    const ReconfigureOutcome outcome = attempt.Agree(
        {.deadline_ns = vote_ns, .awaited = "to have the group with those that join"},
        [&](const std::vector<ReconfigureVoter>& ranks) {
          return NextMoveOfMaking(ranks, wished_);
        },
        [](const auto&) { return true; });
    const bool grown = outcome.attempt == attempt.number() && outcome.kind == EndKind::kGrown;
    if (!grown) {
      growth_->CallOff(made.ok() ? made->get() : nullptr);
      return Failed(attempt, outcome, made.status(), /*of_making=*/true);
    }
    // What goes wrong from here on is a failure of the new group, which the next call on it says.
    if (made.ok() && *made != nullptr) {
      const UninterruptedWaits decided;
      (void)AwaitAll(**made, vote_ns);
    }
    return made;
  }

  // Makes the new group's segment and decides for it. Nobody is in it before.
  void LeadAlone(const ReconfigureAttempt& attempt, const std::vector<int>& members) {
    NumberHash id;
    id.Add(state_.segment.header().group_id);
    id.Add(epoch_);
    id.Add(RecorderTicks());
    const absl::StatusOr<uint64_t> offset =
        MakeSegment(static_cast<int>(members.size()), id.Get(), epoch_);
    if (!offset.ok()) {
      no_group_ = offset.status();
      (void)attempt.Decide(EndKind::kNoSegment, state_.rank, state_.rank);
      return;
    }
    segment_ = state_.peers[static_cast<size_t>(state_.rank)]->base() + *offset;
    board_.Offer(state_.rank, {.offset = *offset, .group_id = id.Get(), .members = members});
    if (!attempt.Decide(EndKind::kNewGroup, state_.rank, state_.rank)) DropSegment();
  }

  void DropSegment() {
    if (segment_ != nullptr) (void)ProcessHeap().Free(std::exchange(segment_, nullptr));
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Join(int leader) {
    const std::optional<ReconfigureOffer> offer = board_.OfferOf(leader);
    if (!offer) {
      return MakeError(
          WEFT_CORRUPT, failures_.names().FieldsOf(leader),
          StrCat(Heading(), "what rank ", leader, " offers cannot have been written by a rank"));
    }
    const auto place = std::find(offer->members.begin(), offer->members.end(), state_.rank);
    if (place == offer->members.end()) return std::shared_ptr<ProcessGroup>();
    const int rank = static_cast<int>(place - offer->members.begin());
    const bool leads = std::exchange(segment_, nullptr) != nullptr;  // it is all members' by now
    absl::StatusOr<std::shared_ptr<ProcessGroup>> next = Enter(*offer, rank);
    if (!next.ok()) StayOut(*offer, rank, leads);
    return next;
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Enter(const ReconfigureOffer& offer,
                                                      int rank) const {
    try {
      return JoinSegment(NextState(offer.members, rank), offer.offset, offer.group_id, options_);
    } catch (const std::bad_alloc&) {
      return MakeError(WEFT_OUT_OF_MEMORY, {.group = old_options_.name},
                       Heading() + "out of memory, after all had agreed");
    }
  }

  // The other members must not wait for this rank.
  void StayOut(const ReconfigureOffer& offer, int rank, bool leads) {
    const auto size = static_cast<int>(offer.members.size());
    const auto leader = static_cast<size_t>(offer.members.front());
    const Segment segment(state_.peers[leader]->At(offer.offset, Segment::Bytes(size, false)),
                          size);
    if (leads) {
      failed_.Keep(segment, offer.members);
    } else if (segment.base() != nullptr && segment.Valid(offer.group_id, epoch_)) {
      segment.control(rank).state.store(RankState::kLeft, std::memory_order_seq_cst);
      NotifyAll(segment.control(rank).waiters);
    }
  }

  NodeState NextState(const std::vector<int>& members, int rank) const {
    NodeState next;
    next.rank = rank;
    next.size = static_cast<int>(members.size());
    next.epoch = epoch_;
    next.group_ranks = options_.group_ranks;
    bool renumbered = !state_.world_ranks.empty();
    for (size_t i = 0; i < members.size(); ++i) {
      next.peers.push_back(state_.peers[static_cast<size_t>(members[i])]);
      next.world_ranks.push_back(state_.WorldRank(members[i]));
      renumbered = renumbered || members[i] != static_cast<int>(i);
    }
    next.world_name = WorldName();
    if (!renumbered) next.world_ranks.clear();
    return next;
  }

  std::string Heading() const { return ReconfigureReport::Heading(old_options_.name); }

  std::string WorldName() const {
    return state_.world_ranks.empty() ? old_options_.name : state_.world_name;
  }

  absl::Status OverAlready() const {
    return MakeError(
        WEFT_BAD_STATE, {.group = old_options_.name},
        StrCat(Heading(), "its ranks have agreed on the group that comes after it, and this rank, ",
               state_.rank, ", could not join that; destroy the handle"));
  }

  const NodeState& state_;
  FailureReporter& failures_;
  FailedSplits& failed_;
  const GroupOptions& old_options_;
  const ReconfigureBoard board_;
  const std::vector<int>& wished_;
  GroupOptions options_;
  const uint32_t epoch_;  // of the new group
  int64_t deadline_ns_ = 0;
  char* segment_ = nullptr;  // that this rank has made, until the new group has it
  absl::Status no_group_;    // why this rank, which leads, could make none
  std::optional<Growth> growth_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> ReconfigureNodeGroup(const OldGroup& old,
                                                                   const std::vector<int>& members,
                                                                   const GroupOptions& options) {
  return Reconfiguration(old, members, options).Run();
}

}  // namespace weft
