#include "shard/layout/grouping.h"

#include <string>

#include "base/status.h"
#include "gmock/gmock.h"

namespace weft::grouping_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A transformer in the order of forward.
const std::vector<GroupedParam> kModel = {
    {"embed.weight", 100},       {"embed.positions", 10},      {"blocks.0.attn.weight", 40},
    {"blocks.0.mlp.weight", 60}, {"blocks.1.attn.weight", 40}, {"blocks.1.mlp.weight", 60},
    {"blocks.10.norm", 5},       {"norm.weight", 1},           {"head.weight", 99}};

std::vector<ParamGroup> Groups(const Grouping& grouping,
                               const std::vector<GroupedParam>& params = kModel) {
  const absl::StatusOr<std::vector<ParamGroup>> groups = GroupParams(params, grouping);
  EXPECT_TRUE(groups.ok()) << groups.status();
  return groups.ok() ? *groups : std::vector<ParamGroup>();
}

void ExpectRefused(const Grouping& grouping, const char* needle,
                   const std::vector<GroupedParam>& params = kModel) {
  const absl::Status status = GroupParams(params, grouping).status();
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << needle;
  EXPECT_THAT(std::string(status.message()), HasSubstr(needle));
}

TEST(GroupParams, ByPrefixMakesAUnitPerMatchAndOfWhatLiesBetween) {
  EXPECT_THAT(Groups({.prefix = "blocks.*"}),
              ElementsAre(ParamGroup{"embed.weight", 0, 2, 110}, ParamGroup{"blocks.0", 2, 2, 100},
                          ParamGroup{"blocks.1", 4, 2, 100}, ParamGroup{"blocks.10", 6, 1, 5},
                          ParamGroup{"norm.weight", 7, 2, 100}));
}

TEST(GroupParams, APatternMayHaveStarsAnywhereAndNone) {
  const std::vector<GroupedParam> model = {{"encoder.layers.0.w", 1},
                                           {"encoder.layers.0.b", 1},
                                           {"encoder.norm.w", 1},
                                           {"decoder.layers.0.w", 1},
                                           {"decoder.head", 1}};
  EXPECT_THAT(
      Groups({.prefix = "*.layers.*"}, model),
      ElementsAre(ParamGroup{"encoder.layers.0", 0, 2, 2}, ParamGroup{"encoder.norm.w", 2, 1, 1},
                  ParamGroup{"decoder.layers.0", 3, 1, 1}, ParamGroup{"decoder.head", 4, 1, 1}));
  EXPECT_THAT(Groups({.prefix = "*"}, model),
              ElementsAre(ParamGroup{"encoder", 0, 3, 3}, ParamGroup{"decoder", 3, 2, 2}));
  EXPECT_THAT(
      Groups({.prefix = "encoder"}, model),
      ElementsAre(ParamGroup{"encoder", 0, 3, 3}, ParamGroup{"decoder.layers.0.w", 3, 2, 2}));
}

TEST(GroupParams, BySizeJoinsNeighboursUntilThereIsEnough) {
  EXPECT_THAT(Groups({.min_bytes = 100}), ElementsAre(ParamGroup{"embed.weight", 0, 1, 100},
                                                      ParamGroup{"embed.positions", 1, 3, 110},
                                                      ParamGroup{"blocks.1.attn.weight", 4, 2, 100},
                                                      ParamGroup{"blocks.10.norm", 6, 3, 105}));
  EXPECT_THAT(Groups({.min_bytes = 1}), testing::SizeIs(kModel.size()));
  EXPECT_THAT(Groups({.min_bytes = 1000}), ElementsAre(ParamGroup{"embed.weight", 0, 9, 415}));
}

TEST(GroupParams, WhatIsLeftAtTheEndJoinsTheLastUnit) {
  EXPECT_THAT(Groups({.min_bytes = 110}),
              ElementsAre(ParamGroup{"embed.weight", 0, 2, 110},
                          ParamGroup{"blocks.0.attn.weight", 2, 3, 140},
                          ParamGroup{"blocks.1.mlp.weight", 5, 4, 165}));
  EXPECT_THAT(Groups({.min_bytes = 4}, {{"a", 5}, {"b", 3}}),
              ElementsAre(ParamGroup{"a", 0, 2, 8}));
}

TEST(GroupParams, BySizeNeverDividesABlock) {
  EXPECT_THAT(Groups({.prefix = "blocks.*", .min_bytes = 101}),
              ElementsAre(ParamGroup{"embed.weight", 0, 2, 110}, ParamGroup{"blocks.0", 2, 4, 200},
                          ParamGroup{"blocks.10", 6, 3, 105}));
}

TEST(GroupParams, RefusesWhatSaysNothing) {
  ExpectRefused({}, "neither by_prefix nor min_bytes");
  ExpectRefused({.prefix = "layers.*"}, "the first is embed.weight");
  ExpectRefused({.prefix = "blocks..weight"}, "empty component");
  ExpectRefused({.prefix = "."}, "empty component");
  ExpectRefused({.prefix = "b.*"}, "b.0.y is apart from the others of b.0",
                {{"b.0.x", 1}, {"b.1.x", 1}, {"b.0.y", 1}});
  ExpectRefused({.prefix = "b.*"}, "b.0.y is apart", {{"b.0.x", 1}, {"other", 1}, {"b.0.y", 1}});
}

}  // namespace
}  // namespace weft::grouping_test
