// A ballot is a number that rises and the proposer's island, so no two proposers have the same one. Frames of a ballot spread over
// all connections; answers go back the way on which the first of them came. If that way breaks, the attempt does, and
// the proposer makes another one.
#include "comm/agent/island_agreement.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

constexpr int kBallotIslandBits = 16;

uint64_t BallotAfter(uint64_t ballot, int island) {
  return ((ballot >> kBallotIslandBits) + 1) << kBallotIslandBits | static_cast<uint64_t>(island);
}

int IslandOfBallot(uint64_t ballot) {
  return static_cast<int>(ballot & ((uint64_t{1} << kBallotIslandBits) - 1));
}

}  // namespace

IslandAgreement::IslandAgreement(const IslandMap& map, const IslandMembership& membership,
                                 const IslandDeaths& deaths, IslandMemory* memory, uint64_t term,
                                 int self, int64_t attempt_ns)
    : map_(map),
      membership_(membership),
      deaths_(deaths),
      memory_(memory),
      term_(term),
      self_(self),
      attempt_ns_(attempt_ns),
      ready_(map.rank_count()),
      connected_(map.island_count()),
      promised_by_(map.island_count()),
      told_dead_(map.rank_count()),
      accepted_by_(map.island_count()) {
  static_assert(IslandTopology::kIslandsMax <= 1 << kBallotIslandBits);
}

void IslandAgreement::Start(const IslandNumberSet& ready_ranks, int64_t deadline_ns) {
  MergeReady(ready_ranks);
  deadline_ns_ = started_ ? std::max(deadline_ns_, deadline_ns) : deadline_ns;
  started_ = true;
}

bool IslandAgreement::MergeReady(const IslandNumberSet& ready_ranks) {
  return ready_.AddAll(ready_ranks.And(membership_.ranks()));
}

void IslandAgreement::See(const IslandNumberSet& connected, bool in_doubt) {
  connected_ = connected;
  in_doubt_ = in_doubt;
}

std::vector<AgreementMessage> IslandAgreement::TakeMessages() {
  return std::exchange(messages_, {});
}

AgreementEnd IslandAgreement::TakeEnd() {
  return std::exchange(end_, AgreementEnd::kNone);
}

bool IslandAgreement::Write(const IslandState& state) {
  if (!deposed_ && !memory_->Write(term_, state)) deposed_ = true;
  return !deposed_;
}

void IslandAgreement::Say(int to, IslandFrame type, std::string body, int except) {
  messages_.push_back({.to = to, .except = except, .type = type, .body = std::move(body)});
}

bool IslandAgreement::SendTowards(uint64_t ballot, IslandFrame type, const std::string& body) {
  if (IslandOfBallot(ballot) == self_) return false;  // for this island
  if (route_ballot_ == ballot) Say(route_, type, body);
  return true;
}

// --- Acceptor ------------------------------------------------------------------------------------

void IslandAgreement::OnPrepare(int from, uint64_t ballot) {
  highest_seen_ = std::max(highest_seen_, ballot);
  IslandState state = memory_->Read();
  if (ballot <= state.promised) {
    // The same one comes over every connection.
    if (ballot < state.promised && from != self_) {
      Say(from, IslandFrame::kRefuse, EncodeReply({ballot, self_, state.promised}));
    }
    return;
  }
  state.promised = ballot;
  if (!Write(state)) return;
  route_ballot_ = ballot;
  route_ = from;
  Say(AgreementMessage::kAll, IslandFrame::kPrepare, EncodeBallot(ballot), from);
  AgreementPromise promise{.ballot = ballot,
                           .island = self_,
                           .accepted = state.accepted,
                           .accepted_ranks = state.accepted_ranks};
  if (state.accepted == 0) promise.accepted_ranks = IslandNumberSet(map_.rank_count());
  for (const RankDeath& death : state.deaths)
    promise.dead.push_back(death.world_rank);
  if (!SendTowards(ballot, IslandFrame::kPromise, EncodePromise(promise))) OnPromise(promise);
}

void IslandAgreement::OnPropose(int from, const AgreementProposal& proposal) {
  const uint64_t ballot = proposal.ballot;
  highest_seen_ = std::max(highest_seen_, ballot);
  if (!membership_.ranks().Contains(proposal.ranks) || proposal.ranks.Empty()) return;
  IslandState state = memory_->Read();
  if (ballot < state.promised) {
    if (from != self_)
      Say(from, IslandFrame::kRefuse, EncodeReply({ballot, self_, state.promised}));
    return;
  }
  if (ballot == state.accepted) return;
  if (ballot != route_ballot_) {
    route_ballot_ = ballot;
    route_ = from;
  }
  // (A2)
  const bool knows_more =
      std::any_of(state.deaths.begin(), state.deaths.end(),
                  [&](const RankDeath& death) { return !proposal.dead.Has(death.world_rank); });
  AgreementReply reply{.ballot = ballot, .island = self_, .promised = knows_more ? ballot : 0};
  state.promised = ballot;
  if (!knows_more) {
    state.accepted = ballot;
    state.accepted_ranks = proposal.ranks;
  }
  if (!Write(state)) return;
  // Who has refused would pass it on each time that it comes; the others have it from elsewhere, or there is another ballot.
  if (!knows_more) {
    Say(AgreementMessage::kAll, IslandFrame::kPropose, EncodeProposal(proposal), from);
  }
  const IslandFrame type = knows_more ? IslandFrame::kRefuse : IslandFrame::kAccepted;
  if (SendTowards(ballot, type, EncodeReply(reply))) return;
  knows_more ? OnRefuse(reply) : OnAccepted(reply);
}

// --- Proposer ------------------------------------------------------------------------------------

void IslandAgreement::OnPromise(const AgreementPromise& promise) {
  if (SendTowards(promise.ballot, IslandFrame::kPromise, EncodePromise(promise))) return;
  if (phase_ != Phase::kPromises || promise.ballot != ballot_) return;
  promised_by_.Add(promise.island);
  for (const int rank : promise.dead) {
    if (map_.IslandOf(rank) == promise.island && membership_.ranks().Has(rank))
      told_dead_.Add(rank);
  }
  if (promise.accepted > highest_accepted_) {
    highest_accepted_ = promise.accepted;
    highest_ranks_ = promise.accepted_ranks;
  }
}

void IslandAgreement::OnAccepted(const AgreementReply& reply) {
  if (SendTowards(reply.ballot, IslandFrame::kAccepted, EncodeReply(reply))) return;
  if (phase_ != Phase::kAccepts || reply.ballot != ballot_) return;
  accepted_by_.Add(reply.island);
  if (HasQuorum(accepted_by_, proposal_.dead)) decided_ = proposal_.ranks;
}

void IslandAgreement::OnRefuse(const AgreementReply& reply) {
  highest_seen_ = std::max(highest_seen_, reply.promised);
  if (SendTowards(reply.ballot, IslandFrame::kRefuse, EncodeReply(reply))) return;
  if (phase_ == Phase::kIdle || reply.ballot != ballot_) return;
  PauseBefore(reply.promised);
}

// Another ballot, but not at once: the proposer of a higher one may be under way. Islands come back at different times.
void IslandAgreement::PauseBefore(uint64_t promised) {
  phase_ = Phase::kIdle;
  const bool own = promised == ballot_;
  retry_ns_ = now_ns_ + (own ? 0 : attempt_ns_ / 8 * (1 + self_ % 4));
}

bool IslandAgreement::HasQuorum(const IslandNumberSet& islands, const IslandNumberSet& dead) const {
  int living = 0;
  int unproven = 0;
  for (const int rank : membership_.ranks().Minus(dead).Numbers()) {
    ++unproven;
    if (islands.Has(map_.IslandOf(rank))) ++living;
  }
  if (living == 0) return false;
  return 2 * living > unproven || (2 * living == unproven && islands.Has(membership_.tie_island()));
}

// Connected ones with ranks that are not known to have ended.
IslandNumberSet IslandAgreement::LivingIslands() const {
  IslandNumberSet living(map_.island_count());
  for (const int rank : membership_.ranks().Minus(deaths_.ranks()).Numbers()) {
    const int island = map_.IslandOf(rank);
    if (connected_.Has(island)) living.Add(island);
  }
  return living;
}

IslandNumberSet IslandAgreement::Late() const {
  IslandNumberSet late = membership_.ranks().Minus(deaths_.ranks()).Minus(ready_);
  for (const int rank : late.Numbers()) {
    if (!connected_.Has(map_.IslandOf(rank))) late.Remove(rank);
  }
  return late;
}

bool IslandAgreement::Leads() const {
  return started_ && !in_doubt_ && LivingIslands().First() == self_ && Late().Empty();
}

void IslandAgreement::Begin(int64_t now_ns) {
  ballot_ = BallotAfter(std::max(highest_seen_, memory_->Read().promised), self_);
  phase_ = Phase::kPromises;
  retry_ns_ = now_ns + attempt_ns_;
  promised_by_ = IslandNumberSet(map_.island_count());
  told_dead_ = IslandNumberSet(map_.rank_count());
  highest_accepted_ = 0;
  accepted_by_ = IslandNumberSet(map_.island_count());
  OnPrepare(self_, ballot_);
}

// (A3), and what the islands that promised say of their own ranks.
IslandNumberSet IslandAgreement::CountedDead() const {
  IslandNumberSet dead = told_dead_;
  for (const int rank : membership_.ranks().And(deaths_.ranks()).Numbers()) {
    const RankDeath& death = deaths_.Of(rank);
    if (death.promised <= ballot_ && !death.accepted) dead.Add(rank);
  }
  return dead;
}

void IslandAgreement::MayPropose() {
  if (!promised_by_.Contains(LivingIslands())) return;
  const IslandNumberSet dead = CountedDead();
  if (!HasQuorum(promised_by_, dead)) return;
  proposal_ = {.ballot = ballot_, .ranks = IslandNumberSet(map_.rank_count()), .dead = dead};
  if (highest_accepted_ != 0) {
    proposal_.ranks = highest_ranks_;
  } else {
    for (const int rank :
         ready_.And(membership_.ranks()).Minus(dead).Minus(deaths_.ranks()).Numbers()) {
      if (promised_by_.Has(map_.IslandOf(rank))) proposal_.ranks.Add(rank);
    }
  }
  if (proposal_.ranks.Empty()) return;
  phase_ = Phase::kAccepts;
  retry_ns_ = now_ns_ + attempt_ns_;
  OnPropose(self_, proposal_);
}

void IslandAgreement::Step(int64_t now_ns) {
  now_ns_ = now_ns;
  if (!started_ || decided_ || deposed_) return;
  if (phase_ != Phase::kIdle && now_ns >= retry_ns_) phase_ = Phase::kIdle;
  if (phase_ == Phase::kIdle && now_ns >= retry_ns_ && Leads()) Begin(now_ns);
  if (phase_ == Phase::kPromises) MayPropose();
  if (decided_ || deposed_) return;
  if (!in_doubt_ && !HasQuorum(connected_, deaths_.ranks().And(membership_.ranks()))) {
    end_ = AgreementEnd::kNoQuorum;
  } else if (now_ns >= deadline_ns_) {
    end_ = AgreementEnd::kTimeout;
  }
  if (end_ == AgreementEnd::kNone) return;
  started_ = false;
  phase_ = Phase::kIdle;
}

int64_t IslandAgreement::NextWakeNs() const {
  if (!started_ || decided_ || deposed_) return std::numeric_limits<int64_t>::max();
  if (phase_ == Phase::kIdle && !Leads()) return deadline_ns_;
  return std::min(deadline_ns_, retry_ns_);
}

}  // namespace weft
