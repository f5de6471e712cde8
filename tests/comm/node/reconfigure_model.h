// The agreement of comm/node on the group that comes after this one, as a model: the words that ranks share, and the steps in which a
// rank reads and writes them. Written from docs/design/010-reconfigure.md, sharing no code with comm/node, so that all
// interleavings can be gone through, with deaths at every step.
//
//   const ReconfigureExploration all = ExploreReconfigure({.ranks = 3, .deaths = 1});
//   EXPECT_EQ(all.problem, "");
//
// A step is one access to what is shared: a word read or written, half of an offer written. A rank that waits can go on when
// something that it looks at has changed: in the code it looks again every few milliseconds.
// What must hold is looked at where it happens: at the decision that it is true, at the end of a call that all end alike, at the
// end that nobody waits and nothing is left behind.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::test {

constexpr int kReconfigureRanksMax = 3;
constexpr int kReconfigureCallsMax = 2;

// What ranks are obliged to do. One at a time can be left out, to see that this is noticed.
enum class ReconfigureRule : uint8_t {
  kNone,
  kAwaitVotes,      // nothing is decided before all that live have voted
  kSameWish,        // a group is made only if all wish the same
  kLookForDead,     // who waits looks again who is gone
  kNextLeads,       // if the first member is gone, the next one leads
  kWishFirst,       // R1: a wish is written before the attempt that it is for
  kOfferFirst,      // R2: an offer is written before the decision for it
  kCompareAndSwap,  // a decision does not replace another one
  kGiveUpAloud,     // who gives up decides it for all
  kNewGroupIsLast,  // nobody votes in a group that has been replaced
  kDropIfLost,      // who made a segment and was not the one to decide frees it
};
constexpr int kReconfigureRuleCount = 11;

std::string_view ReconfigureRuleName(ReconfigureRule rule);

struct ReconfigureWorld {
  int ranks = 2;
  int deaths = 0;  // at most, of any ranks, at any step
  int calls = 1;   // of each rank: after one that failed, the next
  // By rank and call: 0, all that live, 1, the same as a list of all in this order, 2, as a list from the last to the first.
  std::array<std::array<uint8_t, kReconfigureCallsMax>, kReconfigureRanksMax> wishes{};
  uint32_t may_give_up = 0;  // bit per rank: its deadline may pass at any time
  uint32_t cannot_join = 0;  // bit per rank: it fails to map the new group, and calls again
  ReconfigureRule left_out = ReconfigureRule::kNone;
};

struct ReconfigureExploration {
  size_t states = 0;
  std::string problem;  // with the steps that lead to it; "" if none was found
};

// Every state that can be reached, until the first problem.
ReconfigureExploration ExploreReconfigure(const ReconfigureWorld& world);

}  // namespace weft::test
