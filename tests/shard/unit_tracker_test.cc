#include "shard/step/unit_tracker.h"

#include "gtest/gtest.h"

namespace weft::unit_tracker_test {
namespace {

using Kind = Event::Kind;

// Units 0 and 1; unit 1 uses a param of unit 0 as well.
std::vector<UnitSpec> TiedUnits() {
  std::vector<UnitSpec> units(2);
  units[0].used = {0};
  units[1].used = {1, 0};
  return units;
}

class UnitTrackerTest : public testing::Test {
 protected:
  void Call(Kind kind, int unit) { tracker_.OnCall({kind, unit}); }

  const std::vector<UnitSpec> specs_ = TiedUnits();
  UnitTracker tracker_{specs_};
};

TEST_F(UnitTrackerTest, CallOfATiedUnitIsOneOfItsOwner) {
  Call(Kind::kPreForward, 1);
  EXPECT_TRUE(tracker_.Of(0).InUse());
  EXPECT_EQ(tracker_.Of(0).own_uses, 0);
  EXPECT_EQ(tracker_.Of(1).own_uses, 1);
  Call(Kind::kPostForward, 1);
  EXPECT_FALSE(tracker_.Of(0).Kept());
  EXPECT_EQ(tracker_.Of(0).runs, (UnitRuns{1, 0}));
}

TEST_F(UnitTrackerTest, RecomputingIsNoForward) {
  for (const Kind kind : {Kind::kPreForward, Kind::kPostForward, Kind::kPreBackward,
                          Kind::kPreForward, Kind::kPostForward})
    Call(kind, 0);
  EXPECT_TRUE(tracker_.Of(0).InBackward());
  EXPECT_EQ(tracker_.Of(0).runs, (UnitRuns{1, 0}));
}

TEST_F(UnitTrackerTest, UnshardedUnitIsKeptFromItsStartAndInUseFromItsWait) {
  Call(Kind::kUnshard, 0);
  EXPECT_TRUE(tracker_.Of(0).Kept());
  EXPECT_FALSE(tracker_.Of(0).InUse());
  Call(Kind::kUnshardWait, 0);
  Call(Kind::kUnshardWait, 0);
  EXPECT_TRUE(tracker_.Of(0).InUse());
  Call(Kind::kReshard, 0);
  EXPECT_FALSE(tracker_.Of(0).Kept());
  EXPECT_FALSE(tracker_.Of(0).InUse());
}

TEST_F(UnitTrackerTest, ExpectedCallsNeedNoWait) {
  Call(Kind::kUnshard, 0);
  Call(Kind::kReshard, 0);
  EXPECT_EQ(tracker_.Of(0).unshards, 0);
  EXPECT_EQ(tracker_.Of(0).unshards_done, 0);
}

TEST_F(UnitTrackerTest, LastBackwardIsAsOftenAsForwardOrAsRecorded) {
  for (int run = 0; run < 2; ++run) {
    Call(Kind::kPreForward, 0);
    Call(Kind::kPostForward, 0);
  }
  EXPECT_FALSE(tracker_.LastBackward(0));
  tracker_.ExpectRuns({{2, 1}, {}});
  EXPECT_TRUE(tracker_.LastBackward(0));
  tracker_.ExpectRuns({{1, 1}, {}});  // fewer forwards than now: what was recorded says nothing
  EXPECT_FALSE(tracker_.LastBackward(0));
}

TEST_F(UnitTrackerTest, CallsWithoutAUnitChangeNothing) {
  for (const Kind kind : {Kind::kStepBegin, Kind::kMicrobatchBegin, Kind::kGradReady,
                          Kind::kReduceWait, Kind::kMicrobatchEnd, Kind::kFinish})
    Call(kind, 1);
  EXPECT_EQ(tracker_.Of(1).phase, UnitTracker::Phase::kUntouched);
  EXPECT_FALSE(tracker_.Of(1).Kept());
}

}  // namespace
}  // namespace weft::unit_tracker_test
