// Taking newcomers in, in all interleavings of one to three ranks and a newcomer: with deaths, stops and failures at every step, deadlines
// that pass at any time, ranks that are not listed, and calls after one that failed. docs/design/010-reconfigure.md says
// why all that live have the group or nobody keeps it; here it is tried, and that each rule is needed.
#include "growth_model.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::test::growth_model_test {
namespace {

constexpr GrowthWish kGrow = GrowthWish::kGrow;
constexpr GrowthWish kShrink = GrowthWish::kAllThatLive;

struct NamedWorld {
  const char* name;
  GrowthWorld world;
};

// In the order in which they take time. Of a newcomer that dies before it has come nobody need know, and of who is stopped nobody does: so
// deadlines pass where that may happen.
std::vector<NamedWorld> Worlds() {
  return {
      {"OneAndNew", {.ranks = 1, .listed = 1, .ends_in_group = true}},
      {"OneAndNewDie", {.ranks = 1, .listed = 1, .calls = 2, .deaths = 2, .may_give_up = 1}},
      {"OneAndNewStop", {.ranks = 1, .listed = 1, .calls = 2, .stops = 1, .may_give_up = 3}},
      {"TwoAndNew", {.ends_in_group = true}},
      {"TwoOneCallsAgain", {.calls_again = 2, .ends_in_group = true}},
      {"TwoMakeNothing", {.newcomer = false, .calls = 2, .may_fail = 3, .ends_in_group = true}},
      {"TwoOneDies",
       {.newcomer = false,
        .calls = 2,
        .wishes = {kGrow, kShrink},
        .deaths = 1,
        .ends_in_group = true}},
      {"TwoOneUnlisted", {.listed = 1, .deaths = 1, .may_give_up = 3}},
      {"TwoUnlistedGoesOn",
       {.listed = 1,
        .newcomer = false,
        .calls = 2,
        .wishes = {kGrow, kShrink},
        .deaths = 1,
        .ends_in_group = true}},
      {"TwoAndNewGiveUp", {.may_give_up = 7}},
      {"TwoOneFails", {.calls = 2, .may_fail = 3, .ends_in_group = true}},
      {"TwoOneStops", {.stops = 1, .may_give_up = 7}},
      {"TwoAndNewDie", {.deaths = 2, .may_give_up = 3}},
      {"TwoAndNewStop", {.deaths = 1, .stops = 1, .may_give_up = 7}},
      {"TwoAndNewFail", {.calls = 2, .may_fail = 7, .may_give_up = 2}},
      {"TwoGiveUp", {.calls = 2, .may_give_up = 3}},
      {"TwoUnlistedAgain",
       {.listed = 1, .calls = 2, .wishes = {kGrow, kShrink}, .deaths = 1, .may_give_up = 3}},
      {"TwoGoOn", {.calls = 2, .wishes = {kGrow, kShrink}, .deaths = 1, .may_give_up = 3}},
      {"TwoAndNewDieOnce", {.calls = 2, .deaths = 1, .may_give_up = 3}},
      {"ThreeOneDies", {.ranks = 3, .listed = 7, .newcomer = false, .deaths = 1}},
      {"ThreeTwoDie", {.ranks = 3, .listed = 7, .newcomer = false, .deaths = 2}},
      {"ThreeOneUnlisted", {.ranks = 3, .listed = 5, .newcomer = false, .deaths = 2}},
      {"ThreeOneGivesUp", {.ranks = 3, .listed = 7, .newcomer = false, .may_give_up = 2}},
      {"ThreeOneFails",
       {.ranks = 3,
        .listed = 7,
        .newcomer = false,
        .calls = 2,
        .may_fail = 2,
        .ends_in_group = true}},
      {"ThreeAndNew", {.ranks = 3, .listed = 7, .ends_in_group = true}},
  };
}

class GrowthWorlds : public testing::TestWithParam<NamedWorld> {};

TEST_P(GrowthWorlds, AllThatLiveHaveTheGroupOrNobodyKeepsIt) {
  const GrowthExploration all = ExploreGrowth(GetParam().world);
  std::printf("%s: %zu states\n", GetParam().name, all.states);
  ::testing::Test::RecordProperty("states", std::to_string(all.states));
  EXPECT_EQ(all.problem, "");
}

INSTANTIATE_TEST_SUITE_P(World, GrowthWorlds, testing::ValuesIn(Worlds()),
                         [](const auto& info) { return std::string(info.param.name); });

// What is never reached cannot go wrong.
TEST(GrowthModel, GoesThroughWhatMayHappen) {
  const GrowthExploration fails = ExploreGrowth({.calls = 2, .may_fail = 3, .ends_in_group = true});
  EXPECT_TRUE(fails.grown);
  EXPECT_TRUE(fails.not_grown);
  EXPECT_TRUE(fails.grown_later);
  EXPECT_TRUE(fails.newcomer_in);
  const GrowthExploration dies =
      ExploreGrowth({.ranks = 1, .listed = 1, .deaths = 1, .may_give_up = 1});
  EXPECT_TRUE(dies.grown);
  EXPECT_TRUE(dies.not_grown);
}

struct GrowthLeftOut {
  GrowthRule rule;
  std::string_view found;
};

class GrowthRuleLeftOut : public testing::TestWithParam<GrowthLeftOut> {};

TEST_P(GrowthRuleLeftOut, IsFound) {
  std::string problem;
  for (NamedWorld named : Worlds()) {
    named.world.left_out = GetParam().rule;
    problem = ExploreGrowth(named.world).problem;
    if (!problem.empty()) break;
  }
  ASSERT_NE(problem, "");
  EXPECT_THAT(problem, testing::HasSubstr(std::string(GetParam().found)));
}

INSTANTIATE_TEST_SUITE_P(
    EachRule, GrowthRuleLeftOut,
    testing::Values(GrowthLeftOut{GrowthRule::kMakingVotes, "has not voted"},
                    GrowthLeftOut{GrowthRule::kMakingAllHave, "has not the group"},
                    GrowthLeftOut{GrowthRule::kSomebodyHas, "no rank has the group"},
                    GrowthLeftOut{GrowthRule::kDropIfNotGrown, "keeps a group"},
                    GrowthLeftOut{GrowthRule::kMeetTwice, "new keeps a group"},
                    GrowthLeftOut{GrowthRule::kGrownIsLast, "two groups"},
                    GrowthLeftOut{GrowthRule::kCompareAndSwap, "in two ways"},
                    GrowthLeftOut{GrowthRule::kGiveUpAloud, "in two ways"},
                    GrowthLeftOut{GrowthRule::kLookWhileMeeting, "waits for ever"},
                    GrowthLeftOut{GrowthRule::kCallOff, "waits for ever"},
                    GrowthLeftOut{GrowthRule::kHostCallsOff, "new waits for ever"},
                    GrowthLeftOut{GrowthRule::kWatchHost, "new waits for ever"}),
    [](const auto& info) { return std::string(GrowthRuleName(info.param.rule)); });

}  // namespace
}  // namespace weft::test::growth_model_test
