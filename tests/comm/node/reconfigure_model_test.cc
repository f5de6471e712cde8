// The agreement on a new group, in all interleavings of two and three ranks: with deaths at every step, lists that differ, deadlines that
// pass at any time, and ranks that cannot join. docs/design/010-reconfigure.md says why no two ranks end an attempt in two
// ways; here it is tried, and that each rule is needed.
#include "reconfigure_model.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::test::reconfigure_model_test {
namespace {

struct NamedWorld {
  const char* name;
  ReconfigureWorld world;
};

std::vector<NamedWorld> Worlds() {
  return {
      {"TwoLive", {.ranks = 2}},
      {"TwoOneDies", {.ranks = 2, .deaths = 1}},
      {"TwoGiveUp", {.ranks = 2, .deaths = 1, .calls = 2, .may_give_up = 3}},
      {"TwoListed", {.ranks = 2, .deaths = 1, .calls = 2, .wishes = {{{1, 0}, {1, 0}}}}},
      {"TwoTurned", {.ranks = 2, .deaths = 1, .calls = 2, .wishes = {{{2, 0}, {2, 0}}}}},
      {"TwoDiffer",
       {.ranks = 2, .deaths = 1, .calls = 2, .wishes = {{{1, 0}, {2, 0}}}, .may_give_up = 1}},
      {"TwoCannotJoin", {.ranks = 2, .deaths = 1, .calls = 2, .cannot_join = 1}},
      {"TwoTwiceDie",
       {.ranks = 2, .deaths = 2, .calls = 2, .wishes = {{{1, 0}, {1, 0}}}, .may_give_up = 3}},
      {"ThreeLive", {.ranks = 3}},
      {"ThreeOneDies", {.ranks = 3, .deaths = 1}},
      {"ThreeTwoDie", {.ranks = 3, .deaths = 2}},
      {"ThreeOneGivesUp", {.ranks = 3, .deaths = 1, .may_give_up = 2}},
      {"ThreeTurned", {.ranks = 3, .deaths = 1, .wishes = {{{2, 0}, {2, 0}, {2, 0}}}}},
      {"ThreeDiffer", {.ranks = 3, .deaths = 1, .wishes = {{{0, 0}, {1, 0}, {0, 0}}}}},
      {"ThreeListed", {.ranks = 3, .deaths = 1, .calls = 2, .wishes = {{{1, 0}, {1, 0}, {1, 0}}}}},
      {"ThreeTwice", {.ranks = 3, .calls = 2, .may_give_up = 4}},
      {"ThreeCannotJoin", {.ranks = 3, .calls = 2, .cannot_join = 1}},
  };
}

class ReconfigureModel : public testing::TestWithParam<NamedWorld> {};

TEST_P(ReconfigureModel, EndsAlikeAndNobodyWaits) {
  const ReconfigureExploration all = ExploreReconfigure(GetParam().world);
  std::printf("%s: %zu states\n", GetParam().name, all.states);
  ::testing::Test::RecordProperty("states", std::to_string(all.states));
  EXPECT_EQ(all.problem, "");
}

INSTANTIATE_TEST_SUITE_P(World, ReconfigureModel, testing::ValuesIn(Worlds()),
                         [](const auto& info) { return std::string(info.param.name); });

struct ReconfigureLeftOut {
  ReconfigureRule rule;
  std::string_view found;
};

class ReconfigureRuleLeftOut : public testing::TestWithParam<ReconfigureLeftOut> {};

TEST_P(ReconfigureRuleLeftOut, IsFound) {
  std::string problem;
  for (NamedWorld named : Worlds()) {
    named.world.left_out = GetParam().rule;
    problem = ExploreReconfigure(named.world).problem;
    if (!problem.empty()) break;
  }
  ASSERT_NE(problem, "");
  EXPECT_THAT(problem, testing::HasSubstr(std::string(GetParam().found)));
}

INSTANTIATE_TEST_SUITE_P(
    EachRule, ReconfigureRuleLeftOut,
    testing::Values(ReconfigureLeftOut{ReconfigureRule::kAwaitVotes, "left behind"},
                    ReconfigureLeftOut{ReconfigureRule::kSameWish, "wished for something else"},
                    ReconfigureLeftOut{ReconfigureRule::kLookForDead, "waits for ever"},
                    ReconfigureLeftOut{ReconfigureRule::kNextLeads, "waits for ever"},
                    ReconfigureLeftOut{ReconfigureRule::kWishFirst, "wish"},
                    ReconfigureLeftOut{ReconfigureRule::kOfferFirst, "an offer that is not there"},
                    ReconfigureLeftOut{ReconfigureRule::kCompareAndSwap, "in two ways"},
                    ReconfigureLeftOut{ReconfigureRule::kGiveUpAloud, "in two ways"},
                    ReconfigureLeftOut{ReconfigureRule::kNewGroupIsLast, "two groups"},
                    ReconfigureLeftOut{ReconfigureRule::kDropIfLost, "a segment behind"}),
    [](const auto& info) { return std::string(ReconfigureRuleName(info.param.rule)); });

}  // namespace
}  // namespace weft::test::reconfigure_model_test
