// Taking newcomers into a group of comm/node, as a model: the ranks agree to admit a process, all meet elsewhere, and each rank that
// lives votes whether it has the group. Written from docs/design/010-reconfigure.md, sharing no code with comm/node, so that
// all interleavings can be gone through, with deaths, stops and failures at every step.
//
//   const GrowthExploration all = ExploreGrowth({.ranks = 2, .deaths = 1, .may_give_up = 3});
//   EXPECT_EQ(all.problem, "");
//
// reconfigure_model.h has the words of an agreement access by access. Here a vote is one step, and so is a look at one rank. A
// meeting is what it guarantees: who has come stays, and it succeeds for a member only when all have come; but for each one it may also
// fail. A process that is stopped makes no step any more, and counts as living: nobody sees it.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::test {

constexpr int kGrowthRanksMax = 3;
constexpr int kGrowthCallsMax = 2;

// What processes are obliged to do. One at a time can be left out, to see that this is noticed.
enum class GrowthRule : uint8_t {
  kNone,
  kMakingVotes,  // the group is not decided for before all that live have said whether they have it
  kMakingAllHave,     // nor if one of them has not
  kSomebodyHas,       // nor if all that are listed are gone
  kDropIfNotGrown,    // a rank drops what it has made, unless it is decided for
  kMeetTwice,         // a newcomer goes on only when it has met all ranks after the decision
  kGrownIsLast,       // nobody votes in a group that has been replaced
  kCompareAndSwap,    // a decision does not replace another one
  kGiveUpAloud,       // who gives up decides it for all
  kLookWhileMeeting,  // who waits for a meeting looks whether other ranks have died or given up
  kCallOff,           // ranks tell the store that a meeting came to nothing
  kHostCallsOff,  // so does who has admitted somebody and finds that the others have given up since
  kWatchHost,     // a newcomer looks whether the rank that has admitted it lives
};
constexpr int kGrowthRuleCount = 13;

std::string_view GrowthRuleName(GrowthRule rule);

// What a rank's call asks for: the listed ranks and one newcomer, or all ranks that live.
enum class GrowthWish : uint8_t { kGrow, kAllThatLive };

struct GrowthWorld {
  int ranks = 2;
  uint32_t listed = 3;   // bit per rank: it is to be a member of the group with the newcomer
  bool newcomer = true;  // false: none is needed; the ranks meet each other only
  int calls = 1;         // of each rank: after one that failed, the next
  std::array<GrowthWish, kGrowthCallsMax> wishes{};
  int deaths = 0;  // at most, of any processes, at any step
  int stops = 0;   // likewise
  // Bits per process, the newcomer's behind the ranks'.
  uint32_t may_fail = 0;       // one of these, once: to make the group, for a reason of its own
  uint32_t may_give_up = 0;    // its deadline may pass at any time
  uint32_t calls_again = 0;    // it calls in the old group once more when it has the new one
  bool ends_in_group = false;  // all ranks that live, whatever happens
  GrowthRule left_out = GrowthRule::kNone;
};

struct GrowthExploration {
  size_t states = 0;
  std::string problem;  // with the steps that lead to it; "" if none was found
  // What has happened in some order of steps.
  bool grown = false;
  bool not_grown = false;
  bool grown_later = false;  // in an attempt after one that came to nothing
  bool newcomer_in = false;
};

// Every state that can be reached, until the first problem.
GrowthExploration ExploreGrowth(const GrowthWorld& world);

}  // namespace weft::test
