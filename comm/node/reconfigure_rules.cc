#include "comm/node/reconfigure_rules.h"

#include <algorithm>

#include "weft/types.h"

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

// What a word of the board has room for.
constexpr uint64_t kResultMax = 0xff;

// Who has met with something itself says more than who gave up because of another one.
int Weight(int result) {
  if (result == WEFT_SUCCESS) return 0;
  return result == WEFT_REMOTE_ERROR || result == WEFT_ABORTED ? 1 : 2;
}

// Who lives and has not voted; -1: nobody.
int FirstSilent(const std::vector<ReconfigureVoter>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].gone && !ranks[rank].vote.has_value()) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace

ReconfigureMove NextMove(int rank, const std::vector<ReconfigureVoter>& ranks,
                         const std::vector<int>& wished) {
  const auto voter = [&](int of) -> const ReconfigureVoter& {
    return ranks[static_cast<size_t>(of)];
  };
  if (const int silent = FirstSilent(ranks); silent >= 0) return {.awaited = silent};
  const std::vector<int> living = RanksThatLive(ranks);
  const int first = living.front();
  for (const int other : living) {
    if (voter(other).vote != voter(first).vote) return Decision(VoterKind::kMismatch, other, first);
  }
  for (const int member : wished) {
    if (member != kNewRank && voter(member).gone) {
      return Decision(VoterKind::kPeerLost, member, rank);
    }
  }
  ReconfigureMove move{.voted = true, .members = wished.empty() ? living : wished};
  move.awaited = *std::find_if(move.members.begin(), move.members.end(),
                               [](int member) { return member != kNewRank; });
  if (move.awaited == rank) move.kind = ReconfigureMove::Kind::kLead;
  return move;
}

ReconfigureMove NextMoveOfMaking(const std::vector<ReconfigureVoter>& ranks,
                                 const std::vector<int>& members) {
  if (const int silent = FirstSilent(ranks); silent >= 0) return {.awaited = silent};
  const std::vector<int> living = RanksThatLive(ranks);
  int why = WEFT_SUCCESS;
  int whose = -1;
  for (const int rank : living) {
    const uint64_t vote = *ranks[static_cast<size_t>(rank)].vote;
    const int result = vote <= kResultMax ? static_cast<int>(vote) : WEFT_CORRUPT;
    if (result == WEFT_SUCCESS || Weight(result) <= Weight(why)) continue;
    why = result;
    whose = rank;
  }
  if (why != WEFT_SUCCESS) return Decision(VoterKind::kNotGrown, whose, why);
  int lost = kNewRank;
  for (const int member : members) {
    if (member == kNewRank) continue;
    if (!ranks[static_cast<size_t>(member)].gone) {
      return Decision(VoterKind::kGrown, living.front(), 0);
    }
    if (lost == kNewRank) lost = member;
  }
  return Decision(VoterKind::kPeerLost, lost, living.front());
}

uint64_t WishOf(const std::vector<int>& wished) {
  NumberHash hash;
  hash.Add(wished.size());
  for (const int rank : wished)
    hash.Add(static_cast<uint32_t>(rank));
  return hash.Get();
}

}  // namespace weft
