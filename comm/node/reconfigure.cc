// A rank votes, looks at the others every few milliseconds, does what the rules say, and ends as the board's word says and in no
// other way: who gives up at its deadline, or because its program interrupts it, has to decide that for all, and takes
// part in what was decided if somebody was quicker.
//
// A group that works is left alone at first: a rank that has done its part of an operation may come here while others still finish theirs.
// But one that waits in an operation for a rank that is here would wait for ever. So when not all have come after a
// second, the operations under way end; where a death is known they have ended before.
#include "comm/node/reconfigure.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/number_hash.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "comm/node/reconfigure_board.h"
#include "comm/node/reconfigure_rules.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

using EndKind = ReconfigureOutcome::Kind;

constexpr int64_t kLookAtVotersNs = 2'000'000;
constexpr int64_t kFinishNs = 1'000'000'000;  // for operations of a group that works
constexpr WaitPolicy kVotePolicy{.spins = 0, .yields = 50};

class Reconfiguration {
 public:
  Reconfiguration(const OldGroup& old, const std::vector<int>& wished, const GroupOptions& options)
      : state_(old.state),
        failures_(old.failures),
        failed_(old.failed),
        old_options_(old.options),
        board_(old.state.segment.reconfigure_board()),
        wished_(wished),
        options_(options) {
    if (options_.name.empty()) options_.name = old_options_.name;
    if (options_.timeout_ns <= 0) {
      options_.timeout_ns = old_options_.timeout_ns;
      if (options_.init_timeout_ns <= 0) options_.init_timeout_ns = old_options_.init_timeout_ns;
    }
  }

  Reconfiguration(const Reconfiguration&) = delete;
  Reconfiguration& operator=(const Reconfiguration&) = delete;

  ~Reconfiguration() { DropSegment(); }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Run() {
    before_ = board_.Outcome();
    if (before_.kind == EndKind::kNewGroup) return OverAlready();
    board_.Vote(state_.rank, attempt(), WishOf(wished_));
    const ReconfigureOutcome outcome = Agree();
    if (outcome.attempt == attempt() && outcome.kind == EndKind::kNewGroup) {
      return Join(outcome.rank);
    }
    absl::Status why = WhyNot(outcome);
    if (ResultOf(why) == WEFT_TIMEOUT) failures_.Raise(why);
    return TakeInterrupt() ? AsInterrupted(why) : why;
  }

 private:
  uint32_t attempt() const { return before_.attempt + 1; }

  // Of a process that has ended, or has left in good order.
  bool Gone(int rank) {
    if (rank == state_.rank) return false;
    if (state_.control(rank).state.load(std::memory_order_seq_cst) >= RankState::kLeaving) {
      return true;
    }
    const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(rank)]->Ended();
    if (exit && !state_.aborted()) failures_.Raise(failures_.PeerLost(nullptr, rank, *exit));
    return exit.has_value();
  }

  std::vector<ReconfigureVoter> Look() {
    std::vector<ReconfigureVoter> voters;
    voters.reserve(static_cast<size_t>(state_.size));
    for (int rank = 0; rank < state_.size; ++rank)
      voters.push_back({.gone = Gone(rank), .vote = board_.VoteOf(rank, attempt())});
    return voters;
  }

  bool Decided() const { return board_.Outcome().attempt >= attempt(); }

  // False if somebody was quicker. It may have left since, so that it seems to be gone to who looks at this moment.
  bool Decide(EndKind kind, int rank, int other) {
    return board_.Decide(before_, {.attempt = attempt(),
                                   .kind = kind,
                                   .rank = static_cast<uint8_t>(rank),
                                   .other = static_cast<uint8_t>(other)});
  }

  ReconfigureOutcome Agree() {
    const int64_t deadline_ns = InitDeadlineNs(options_);
    const int64_t finish_ns = MonotonicNs() + kFinishNs;
    while (!Decided()) {
      const int votes = board_.Votes(attempt());
      const std::vector<ReconfigureVoter> voters = Look();
      if (Move(NextMove(state_.rank, voters, wished_))) continue;
      const int64_t now_ns = MonotonicNs();
      if (now_ns >= deadline_ns) {
        GiveUp(voters);
        continue;
      }
      if (now_ns >= finish_ns && !state_.aborted()) {
        failures_.Raise(failures_.Aborted("it is being reconfigured"));
      }
      AwaitChange(votes, deadline_ns - now_ns);
      if (Interrupted()) (void)Decide(EndKind::kInterrupted, state_.rank, state_.rank);
    }
    return board_.Outcome();
  }

  void GiveUp(const std::vector<ReconfigureVoter>& voters) {
    const int awaited = AwaitedBy(state_.rank, voters, wished_);
    const bool voted = voters[static_cast<size_t>(awaited)].vote.has_value();
    (void)Decide(voted ? EndKind::kStuck : EndKind::kTimeout, awaited, state_.rank);
  }

  // True if this rank has done what was to be done.
  bool Move(const ReconfigureMove& move) {
    switch (move.kind) {
      case ReconfigureMove::Kind::kWait:
        return false;
      case ReconfigureMove::Kind::kDecide:
        (void)Decide(move.outcome.kind, move.outcome.rank, move.outcome.other);
        return true;
      case ReconfigureMove::Kind::kLead:
        Lead(move.members);
        return true;
    }
    return false;
  }

  void AwaitChange(int votes, int64_t left_ns) {
    Deadline brief{std::min(left_ns, kLookAtVotersNs)};
    WaitUntil(
        board_.events(), kVotePolicy, brief,
        [&] { return Decided() || board_.Votes(attempt()) != votes; },
        [] { return Interrupted(); });
  }

  // Makes the new group's segment and decides for it. Nobody is in it before.
  void Lead(const std::vector<int>& members) {
    NumberHash id;
    id.Add(state_.segment.header().group_id);
    id.Add(state_.epoch + 1);
    id.Add(RecorderTicks());
    const absl::StatusOr<uint64_t> offset =
        MakeSegment(static_cast<int>(members.size()), id.Get(), state_.epoch + 1);
    if (!offset.ok()) {
      no_segment_ = offset.status();
      (void)Decide(EndKind::kNoSegment, state_.rank, state_.rank);
      return;
    }
    segment_ = state_.peers[static_cast<size_t>(state_.rank)]->base() + *offset;
    board_.Offer(state_.rank, {.offset = *offset, .group_id = id.Get(), .members = members});
    if (!Decide(EndKind::kNewGroup, state_.rank, state_.rank)) DropSegment();
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
    } else if (segment.base() != nullptr && segment.Valid(offer.group_id, state_.epoch + 1)) {
      segment.control(rank).state.store(RankState::kLeft, std::memory_order_seq_cst);
      NotifyAll(segment.control(rank).waiters);
    }
  }

  NodeState NextState(const std::vector<int>& members, int rank) const {
    NodeState next;
    next.rank = rank;
    next.size = static_cast<int>(members.size());
    next.epoch = state_.epoch + 1;
    bool renumbered = !state_.world_ranks.empty();
    for (size_t i = 0; i < members.size(); ++i) {
      next.peers.push_back(state_.peers[static_cast<size_t>(members[i])]);
      next.world_ranks.push_back(state_.WorldRank(members[i]));
      renumbered = renumbered || members[i] != static_cast<int>(i);
    }
    next.world_name = state_.world_ranks.empty() ? old_options_.name : state_.world_name;
    if (!renumbered) next.world_ranks.clear();
    return next;
  }

  std::string Heading() const { return StrCat("reconfiguring group ", old_options_.name, ": "); }

  absl::Status OverAlready() const {
    return MakeError(
        WEFT_BAD_STATE, {.group = old_options_.name},
        StrCat(Heading(), "its ranks have agreed on the group that comes after it, and this rank, ",
               state_.rank, ", could not join that; destroy the handle"));
  }

  // All ranks say the same, each from what it sees.
  absl::Status WhyNot(const ReconfigureOutcome& outcome) {
    const int rank = outcome.rank;
    if (outcome.attempt != attempt() || rank >= state_.size || outcome.other >= state_.size) {
      return MakeError(WEFT_TIMEOUT, {.group = old_options_.name},
                       Heading() + "the other ranks have given up meanwhile, and tried again");
    }
    const ErrorFields fields = failures_.names().FieldsOf(rank);
    switch (outcome.kind) {
      case EndKind::kPeerLost:
        return ListedRankIsGone(rank);
      case EndKind::kMismatch:
        return MakeError(WEFT_MISMATCH, fields,
                         fmt::format("{}rank {} passed another list of members than rank {}; this "
                                     "rank, {}, passed {}",
                                     Heading(), rank, outcome.other, state_.rank,
                                     wished_.empty() ? "none" : fmt::format("{}", wished_)));
      case EndKind::kTimeout:
      case EndKind::kStuck:
        return TooLate(rank, outcome.other, outcome.kind == EndKind::kStuck);
      case EndKind::kInterrupted:
        return MakeError(WEFT_ABORTED, fields,
                         StrCat(Heading(), failures_.names().NameOf(rank),
                                " was interrupted by its program (weft_set_interrupt)"));
      case EndKind::kNoSegment:
        if (rank == state_.rank) return Annotate(no_segment_, Heading());
        return MakeError(WEFT_REMOTE_ERROR, fields,
                         StrCat(Heading(), failures_.names().NameOf(rank),
                                " could not make the shared segment; its own error says why"));
      default:
        return MakeError(WEFT_CORRUPT, fields,
                         Heading() + "the word that decides cannot have been written by a rank");
    }
  }

  absl::Status ListedRankIsGone(int rank) const {
    const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(rank)]->Ended();
    ErrorFields fields = failures_.names().FieldsOf(rank);
    if (exit) {
      fields.signal = exit->signal;
      fields.exit_code = exit->exit_code;
    }
    return MakeError(
        WEFT_PEER_LOST, fields,
        fmt::format(
            "{}{} is listed as a member, and {}; list ranks that live, or none for all of them",
            Heading(),
            failures_.names().NameOf(rank, fmt::format("host {}, pid {}", fields.host, fields.pid)),
            exit ? exit->ToString() : "has left the group (it destroyed its handle)"));
  }

  // With all others that have not come.
  absl::Status TooLate(int rank, int finder, bool voted) {
    std::vector<std::string> missing{failures_.WhereIs(rank)};
    for (int other = 0; other < state_.size && !voted; ++other) {
      if (other == rank || board_.HasVoted(other, attempt()) || Gone(other)) continue;
      missing.push_back(failures_.WhereIs(other));
    }
    return MakeError(
        WEFT_TIMEOUT, failures_.names().FieldsOf(rank),
        fmt::format("{}{} {} before the deadline of rank {}", Heading(), fmt::join(missing, ", "),
                    voted ? "called weft_group_reconfigure, but did not go on"
                          : "did not call weft_group_reconfigure",
                    finder));
  }

  const NodeState& state_;
  FailureReporter& failures_;
  FailedSplits& failed_;
  const GroupOptions& old_options_;
  const ReconfigureBoard board_;
  const std::vector<int>& wished_;
  GroupOptions options_;
  ReconfigureOutcome before_;
  char* segment_ = nullptr;  // that this rank has made, until the new group has it
  absl::Status no_segment_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> ReconfigureNodeGroup(const OldGroup& old,
                                                                   const std::vector<int>& members,
                                                                   const GroupOptions& options) {
  return Reconfiguration(old, members, options).Run();
}

}  // namespace weft
