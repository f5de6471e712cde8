#include "comm/node/reconfigure_rules.h"

#include <algorithm>

#include "comm/group/number_hash.h"

namespace weft {
namespace {

using VoterKind = ReconfigureOutcome::Kind;

std::vector<int> RanksThatLive(const std::vector<ReconfigureVoter>& ranks) {
  std::vector<int> living;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].gone) living.push_back(static_cast<int>(rank));
  }
  return living;
}

ReconfigureMove Decision(VoterKind kind, int rank, int other) {
  ReconfigureMove move{.kind = ReconfigureMove::Kind::kDecide};
  move.outcome.kind = kind;
  move.outcome.rank = static_cast<uint8_t>(rank);
  move.outcome.other = static_cast<uint8_t>(other);
  return move;
}

}  // namespace

ReconfigureMove NextMove(int rank, const std::vector<ReconfigureVoter>& ranks,
                         const std::vector<int>& wished) {
  const auto voter = [&](int of) -> const ReconfigureVoter& {
    return ranks[static_cast<size_t>(of)];
  };
  const std::vector<int> living = RanksThatLive(ranks);
  const auto silent = [&](int of) {
    return !voter(of).vote.has_value();
  };
  if (std::any_of(living.begin(), living.end(), silent)) return {};
  const int first = living.front();
  for (const int other : living) {
    if (voter(other).vote != voter(first).vote) return Decision(VoterKind::kMismatch, other, first);
  }
  for (const int member : wished) {
    if (voter(member).gone) return Decision(VoterKind::kPeerLost, member, rank);
  }
  ReconfigureMove move{.members = wished.empty() ? living : wished};
  if (move.members.front() == rank) move.kind = ReconfigureMove::Kind::kLead;
  return move;
}

int AwaitedBy(int rank, const std::vector<ReconfigureVoter>& ranks,
              const std::vector<int>& wished) {
  for (const int living : RanksThatLive(ranks)) {
    if (!ranks[static_cast<size_t>(living)].vote.has_value()) return living;
  }
  const std::vector<int> members = NextMove(rank, ranks, wished).members;
  return members.empty() ? rank : members.front();
}

uint64_t WishOf(const std::vector<int>& wished) {
  NumberHash hash;
  hash.Add(wished.size());
  for (const int rank : wished)
    hash.Add(static_cast<uint32_t>(rank));
  return hash.Get();
}

}  // namespace weft
