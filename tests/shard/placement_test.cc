// Presets as four places, and which places go together.
#include "shard/layout/placement.h"

#include <string>
#include <tuple>

#include "base/status.h"
#include "gtest/gtest.h"

namespace weft::placement_test {
namespace {

constexpr auto kPreset = WEFT_SHARD_PLACE_BY_PRESET;
constexpr auto kWhole = WEFT_SHARD_PLACE_WHOLE;
constexpr auto kAll = WEFT_SHARD_PLACE_SHARDED;
constexpr auto kInner = WEFT_SHARD_PLACE_SHARDED_INNER;

// What each preset stands for, written out.
const std::tuple<weft_shard_preset_t, Places> kPresets[] = {
    {WEFT_SHARD_NO_SHARD, {kWhole, kWhole, kWhole, kWhole}},
    {WEFT_SHARD_ZERO1, {kWhole, kWhole, kWhole, kAll}},
    {WEFT_SHARD_ZERO2, {kWhole, kWhole, kAll, kAll}},
    {WEFT_SHARD_GRAD_OP, {kAll, kWhole, kAll, kAll}},
    {WEFT_SHARD_FULL_SHARD, {kAll, kAll, kAll, kAll}},
    {WEFT_SHARD_HYBRID_SHARD, {kInner, kInner, kInner, kInner}},
    {WEFT_SHARD_HPZ, {kAll, kInner, kAll, kAll}},
    {WEFT_SHARD_FRACTION, {kAll, kAll, kAll, kAll}},
};

TEST(Placement, IsFourPlaces) {
  for (const auto& [preset, places] : kPresets)
    EXPECT_EQ(PlacesOf(PlacementOf(preset)), places) << PresetName(preset);
}

TEST(Placement, OfAPresetIsMadeOfItsPlaces) {
  for (const auto& [preset, places] : kPresets) {
    for (const auto& [from, unused] : kPresets) {
      const absl::StatusOr<Placement> made = Replace(PlacementOf(from), places);
      ASSERT_TRUE(made.ok()) << made.status();
      Placement expected = PlacementOf(preset);
      expected.preset = from;
      EXPECT_EQ(*made, expected) << PresetName(preset) << " from " << PresetName(from);
    }
  }
}

TEST(Placement, KeepsWhatIsNotReplaced) {
  for (const auto& [preset, places] : kPresets)
    EXPECT_EQ(*Replace(PlacementOf(preset), {}), PlacementOf(preset)) << PresetName(preset);
  const Placement kept =
      *Replace(PlacementOf(WEFT_SHARD_HYBRID_SHARD), {.params = kPreset, .between = kWhole});
  EXPECT_TRUE(kept.replicated);
  EXPECT_TRUE(kept.kept_between);
}

// All 81 of them: legal ones are those of the rule, written as a table of what is cut.
TEST(Placement, RefusesWhatDoesNotGoTogetherAndNamesIt) {
  int legal = 0;
  for (const auto params : {kWhole, kAll, kInner}) {
    for (const auto between : {kWhole, kAll, kInner}) {
      for (const auto gradients : {kWhole, kAll, kInner}) {
        for (const auto optimizer : {kWhole, kAll, kInner}) {
          const Places places{params, between, gradients, optimizer};
          const absl::StatusOr<Placement> made = Replace(PlacementOf(WEFT_SHARD_NO_SHARD), places);
          if (made.ok()) {
            ++legal;
            EXPECT_EQ(PlacesOf(*made), places);
            continue;
          }
          EXPECT_EQ(ResultOf(made.status()), WEFT_INVALID_ARGUMENT);
          const std::string message(made.status().message());
          EXPECT_NE(message.find(" are to be "), std::string::npos) << message;
        }
      }
    }
  }
  // Whole; optimizer cut; gradients too, by two kinds; params too, kept in three and in two ways.
  EXPECT_EQ(legal, 1 + 1 + 2 + 3 + 2);
}

}  // namespace
}  // namespace weft::placement_test
