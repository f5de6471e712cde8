// What a rank does next while its group is reconfigured, from what it sees of all ranks. Pure, so that it can be tried on any
// situation; who reads, waits and writes is reconfigure.cc. Why it is enough: docs/design/010-reconfigure.md.
//
//   const ReconfigureMove move = NextMove(rank, seen, wished);
//   if (move.kind == ReconfigureMove::Kind::kLead) ...     // make the group of move.members, and decide for it
//
// Rules:
//  1. Nothing is decided, but that somebody gives up, before every rank that lives has voted.
//  2. Ranks that are gone have no vote. That they are is a fact which all others find by themselves.
//  3. If the living wish differently, or a listed rank is gone, any rank may say so. It is the same for all.
//  4. Else the first member decides, and no other rank can be the first member while that one lives. If places are open, it does when it
//     has who will fill them.
//  5. Of a group with newcomers, which its ranks have met to make: if all that live have it, any of them decides for it, else
//     against it, for the first that has met with something itself. If none of its ranks lives, nobody has it.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/node/reconfigure_board.h"

namespace weft {

// One rank, as another one sees it.
struct ReconfigureVoter {
  bool gone = false;             // its process has ended, or it has left the group
  std::optional<uint64_t> vote;  // its wish, if it has voted in this attempt
};

struct ReconfigureMove {
  enum class Kind : uint8_t { kWait, kLead, kDecide };

  Kind kind = Kind::kWait;
  int awaited = -1;          // kWait: the first who lives and has not voted, else who is to lead
  bool voted = false;        // kWait: all have that live
  std::vector<int> members;  // of the new group, if it is known: ranks of the old one, and kNewRank
  ReconfigureOutcome outcome;  // kDecide; without the attempt
};

// `wished`: members that the caller has listed, some of them kNewRank; or none for all that live. `rank` is not gone.
ReconfigureMove NextMove(int rank, const std::vector<ReconfigureVoter>& ranks,
                         const std::vector<int>& wished);

// Of the attempt after kAdmit, for a group of `members`. A vote is a weft_result_t: of making the group, or success of a rank that is no
// member.
ReconfigureMove NextMoveOfMaking(const std::vector<ReconfigureVoter>& ranks,
                                 const std::vector<int>& members);

// What a rank votes for: equal for equal lists.
uint64_t WishOf(const std::vector<int>& wished);

}  // namespace weft
