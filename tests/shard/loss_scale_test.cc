#include "shard/optimizer/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft::loss_scale_test {
namespace {

// The rule, worked out from all that ever happened: each step asks the whole list of events where the present
// period began and what came in it.
class EventList {
 public:
  explicit EventList(const LossScaleOptions& options) : options_(options) {}

  void Add(bool overflow) { events_.push_back(overflow); }

  double Scale() const {
    double scale = options_.initial;
    size_t renewed = 0;  // the step after the last growth, or the start
    for (size_t now = 0; now < events_.size(); ++now) {
      if (events_[now]) {
        const auto overflows =
            std::count(events_.begin() + renewed, events_.begin() + now + 1, true);
        if (overflows >= options_.hysteresis) scale = std::max(scale / 2, options_.least);
      } else if (GoodSteps(renewed, now) == options_.growth_steps) {
        scale = std::min(scale * 2, options_.greatest);
        renewed = now + 1;
      }
    }
    return scale;
  }

 private:
  // How many steps up to `now` were good without an overflow between, counted from `first`.
  int64_t GoodSteps(size_t first, size_t now) const {
    int64_t steps = 0;
    for (size_t i = now + 1; i > first && !events_[i - 1]; --i)
      ++steps;
    return steps;
  }

  LossScaleOptions options_;
  std::vector<bool> events_;
};

TEST(LossScale, FollowsTheListOfAllEvents) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed() + 1);
  for (int run = 0; run < 300; ++run) {
    const LossScaleOptions options = {.initial = std::ldexp(1.0, static_cast<int>(random() % 9)),
                                      .least = 1,
                                      .greatest = 256,
                                      .growth_steps = 1 + static_cast<int64_t>(random() % 6),
                                      .hysteresis = 1 + static_cast<int64_t>(random() % 4)};
    const unsigned one_in = 1 + random() % 8;
    EventList events(options);
    LossScale scale(options);
    for (int step = 0; step < 120; ++step) {
      const bool overflow = random() % one_in == 0;
      events.Add(overflow);
      ASSERT_EQ(scale.Update(overflow), overflow);
      ASSERT_EQ(scale.value(), events.Scale()) << "run " << run << ", step " << step;
    }
  }
}

TEST(LossScale, DoublesAfterAThousandGoodStepsInARow) {
  LossScale scale(LossScaleOptions{});
  for (int step = 0; step < 999; ++step)
    EXPECT_FALSE(scale.Update(false));
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_TRUE(scale.Update(true));  // tolerated, but the row is broken
  for (int step = 0; step < 999; ++step)
    EXPECT_FALSE(scale.Update(false));
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_FALSE(scale.Update(false));
  EXPECT_EQ(scale.value(), 131072);
}

TEST(LossScale, HalvesAtTheSecondOverflowAndAtEveryFurtherOne) {
  LossScale scale({.initial = 1024, .growth_steps = 3});
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.value(), 1024);
  EXPECT_FALSE(scale.Update(false));  // one good step renews nothing
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.value(), 512);
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.value(), 256);
  for (int step = 0; step < 3; ++step)
    EXPECT_FALSE(scale.Update(false));
  EXPECT_EQ(scale.value(), 512);  // grown: two overflows again
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.value(), 512);
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.value(), 256);
}

TEST(LossScale, StaysWithinItsBounds) {
  LossScale falling({.initial = 4, .hysteresis = 1});
  for (int step = 0; step < 10; ++step)
    EXPECT_TRUE(falling.Update(true));
  EXPECT_EQ(falling.value(), 1);
  LossScale rising({.growth_steps = 1});
  for (int step = 0; step < 10; ++step)
    EXPECT_FALSE(rising.Update(false));
  EXPECT_EQ(rising.value(), 0x1p24);
  EXPECT_TRUE(rising.Update(true));  // tolerated at the bound too
  EXPECT_EQ(rising.value(), 0x1p24);
  EXPECT_TRUE(rising.Update(true));
  EXPECT_EQ(rising.value(), 0x1p23);
}

TEST(LossScale, SkipsOverflowsOfAStaticScaleThatNeverChanges) {
  LossScale scale = LossScale::Static(1000);
  for (int step = 0; step < 5000; ++step)
    ASSERT_EQ(scale.Update(step % 7 == 0), step % 7 == 0);
  EXPECT_EQ(scale.value(), 1000);
}

TEST(LossScale, RefusesOptionsThatCannotWork) {
  EXPECT_TRUE(CheckLossScaleOptions({}).ok());
  const LossScaleOptions wrong[] = {
      {.initial = 0.5},    {.least = 0},      {.initial = 0x1p25}, {.greatest = INFINITY},
      {.growth_steps = 0}, {.hysteresis = 0}, {.initial = NAN},    {.initial = INFINITY},
  };
  for (const LossScaleOptions& options : wrong) {
    const absl::Status status = CheckLossScaleOptions(options);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("least <= initial <= greatest"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace weft::loss_scale_test
