// What the ranks of a group write to agree on the group that comes after it: what each of them wishes, the group that one of
// them offers, and the one word that decides. A part of the group's segment.
//
//   const ReconfigureOutcome before = board.Outcome();
//   board.Vote(rank, before.attempt + 1, wish);
//   ...                                                           // reconfigure_rules.h: whose turn is it?
//   board.Offer(rank, {.offset = offset, .group_id = id, .members = members});
//   board.Decide(before, {.attempt = before.attempt + 1, .kind = ReconfigureOutcome::Kind::kNewGroup, .rank = rank});
//   ... board.Outcome() ...                                       // what all do now, whoever has decided
//
// Attempts are counted, and each ends by a compare-and-swap of the word from the outcome of the one before it: so an attempt
// has one outcome, whoever dies when, and no rank leaves an attempt by any other way. A new group is the last outcome:
// nothing replaces it. One with newcomers takes two attempts, since its ranks meet elsewhere: kAdmit, then kGrown or kNotGrown. Invariants:
//  R1  A wish is written before the attempt that it is for, and read after it.
//  R2  An offer is written before its rank decides for it, and never again once that has succeeded.
//
// Thread-safety: any thread of any rank; a rank's vote and offer by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/wait.h"

namespace weft {

// How an attempt has ended.
struct ReconfigureOutcome {
  enum class Kind : uint8_t {
    kNone = 0,      // there has been no attempt
    kNewGroup = 1,  // `rank` offers it
    kPeerLost,      // `rank` is to be a member and is gone
    kMismatch,      // `rank` wishes for other members than `other`
    kTimeout,       // `rank` has not voted before the deadline of `other`
    kStuck,         // it has, but not decided as it was to
    kInterrupted,   // `rank` does not wait any longer
    kNoSegment,     // `rank` has no memory for the new group
    kAdmit,  // `rank` offers one with open places and has who will fill them: all make it, and vote whether they have it
    kNoNewcomers,  // `rank` has found `other` processes that would join, too few
    kNoStore,      // `rank` could not ask for them
    kGrown,        // all that live have the group with the newcomers
    kNotGrown,     // `rank` has not; `other`: why, a weft_result_t
  };

  uint32_t attempt = 0;
  Kind kind = Kind::kNone;
  uint8_t rank = 0;
  uint8_t other = 0;

  bool operator==(const ReconfigureOutcome&) const = default;

  // The group is replaced: there is no attempt after this one.
  bool final() const { return kind == Kind::kNewGroup || kind == Kind::kGrown; }
};

// In a list of members: a place for a process that is not in the group yet (WEFT_NEW_RANK).
constexpr int kNewRank = -1;

struct ReconfigureOffer {
  uint64_t offset =
      0;  // of the new group's segment, in the heap of who offers it; not if there are open places
  uint64_t group_id = 0;
  std::vector<int> members;  // ranks of the old group, in the order of the new one; or kNewRank
};

class ReconfigureBoard {
 public:
  ReconfigureBoard() = default;

  // A view of what Create() has made; `base` is aligned as kAlignment.
  ReconfigureBoard(char* base, int size);

  static constexpr size_t kAlignment = 128;
  static size_t Bytes(int size);
  static ReconfigureBoard Create(char* base, int size);

  ReconfigureOutcome Outcome() const;

  // Says what `rank` wishes for in `attempt`; wakes the others.
  void Vote(int rank, uint32_t attempt, uint64_t wish) const;
  // What `rank` wishes for, if it has said so.
  std::optional<uint64_t> VoteOf(int rank, uint32_t attempt) const;
  // Whether it has, in this attempt or a later one.
  bool HasVoted(int rank, uint32_t attempt) const;
  // How many have voted.
  int Votes(uint32_t attempt) const;

  void Offer(int rank, const ReconfigureOffer& offer) const;
  // Nothing if it cannot have been written by a rank.
  std::optional<ReconfigureOffer> OfferOf(int rank) const;

  // Ends the attempt after `before`, unless it has ended already; wakes the others.
  bool Decide(const ReconfigureOutcome& before, const ReconfigureOutcome& outcome) const;

  // Notified when somebody votes or decides.
  EventCount& events() const { return head().events; }

 private:
  struct Head {
    alignas(kAlignment) EventCount events;
    alignas(64) std::atomic<uint64_t> outcome;
  };

  static constexpr int kRanksMax = 64;

  // Written by its rank only.
  struct alignas(64) Place {
    std::atomic<uint64_t> wish;
    std::atomic<uint32_t> attempt;
    uint32_t member_count;
    uint64_t offset;
    uint64_t group_id;
    uint8_t members[kRanksMax];
  };

  Head& head() const { return *reinterpret_cast<Head*>(base_); }

  Place& place(int rank) const { return reinterpret_cast<Place*>(base_ + sizeof(Head))[rank]; }

  char* base_ = nullptr;
  int size_ = 0;
};

}  // namespace weft
