// Places of units: apart where units meet, and kept to by schedules of any calls.
#include "shard/step/fixed_places.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "shard/layout/interval_packing.h"
#include "shard/step/prediction.h"
#include "shard/step/schedule.h"
#include "shard/step/unit_tracker.h"

namespace weft::fixed_places_test {
namespace {

using Kind = Event::Kind;
using Random = std::mt19937_64;

int Pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<uint64_t>(count));
}

bool InTime(const Residency& a, const Residency& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

bool InSpace(const Residency& a, const Residency& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

void ExpectApart(const std::vector<Residency>& gathers) {
  for (size_t i = 0; i < gathers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Residency& a = gathers[i];
      const Residency& b = gathers[j];
      if (a.index == b.index) {
        EXPECT_EQ(a.offset, b.offset);
        EXPECT_FALSE(InTime(a, b)) << i << " and " << j;
      } else {
        EXPECT_FALSE(InTime(a, b) && InSpace(a, b)) << i << " and " << j;
      }
    }
  }
}

TEST(ShareFixedPlaces, KeepsApartWhatMeets) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::vector<size_t> bytes(static_cast<size_t>(1 + Pick(random, 8)));
    for (size_t& one : bytes)
      one = static_cast<size_t>(64 * (1 + Pick(random, 9)));
    std::vector<Residency> gathers;
    std::vector<Interval> alive;
    std::vector<int64_t> free_from(bytes.size(), 0);
    for (int64_t time = 0; gathers.size() < 20; time += Pick(random, 4)) {
      const int unit = Pick(random, static_cast<int>(bytes.size()));
      const auto u = static_cast<size_t>(unit);
      if (free_from[u] > time) {
        ++time;
        continue;
      }
      const int64_t end = time + Pick(random, 9);
      free_from[u] = end + 1;
      gathers.push_back({.index = unit, .begin = time, .end = end, .bytes = bytes[u]});
      alive.push_back({time, end, bytes[u], 0});
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    const size_t needed = ShareFixedPlaces(gathers);
    ExpectApart(gathers);
    size_t end = 0;
    for (const Residency& one : gathers)
      end = std::max(end, one.offset + one.bytes);
    EXPECT_EQ(end, needed);
    EXPECT_GE(needed, MostAlive(alive));
    EXPECT_LE(needed, std::accumulate(bytes.begin(), bytes.end(), size_t{0}));
    if (HasFailure()) return;
  }
}

TEST(ShareFixedPlaces, OfNothingAreNothing) {
  std::vector<Residency> none;
  EXPECT_EQ(ShareFixedPlaces(none), 0u);
}

// Units of a model with one param each.
struct Units {
  Units(const std::vector<int64_t>& counts, const std::vector<weft_shard_preset_t>& presets) {
    for (size_t u = 0; u < counts.size(); ++u) {
      const std::string name = "u" + std::to_string(u);
      const int unit = *registry.BeginUnit(name, PlacementOf(presets[u % presets.size()]));
      EXPECT_TRUE(registry.AddParam(unit, name + ".w", &counts[u], 1, WEFT_FLOAT32).ok());
      EXPECT_TRUE(registry.SealUnit(unit).ok());
    }
    layout = MakeLayout(registry, {.bucket_bytes = 1, .first_bucket_bytes = 1},
                        {.rank = 0, .size = 4}, {.rank = 0, .size = 2});
    input.layout = &layout;
    input.units = &registry.units();
    input.fixes_places = true;
  }

  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  Registry registry;
  Layout layout;
  ScheduleInput input;
};

TEST(FixedPlaces, OfAChainAreTwo) {
  for (const int microbatches : {1, 2, 40}) {
    Units units(std::vector<int64_t>(9, 128), {WEFT_SHARD_FULL_SHARD});
    const Schedule schedule = MakeSchedule(units.input, PredictEvents(9, true, microbatches));
    EXPECT_EQ(schedule.fixed_bytes, 2u * 512) << microbatches;
    ExpectApart(schedule.gathers);
    const FixedPlaces places = PlacesOf(schedule, units.layout);
    EXPECT_EQ(places.bytes, schedule.fixed_bytes);
    units.input.places = &places;
    const Schedule again = MakeSchedule(units.input, PredictEvents(9, true, microbatches));
    EXPECT_EQ(again.pool_bytes, schedule.pool_bytes);
    EXPECT_EQ(again.gather_count(), schedule.gather_count());
    EXPECT_EQ(again.repeat.times, schedule.repeat.times);
  }
}

TEST(FixedPlaces, OfAUnitThatIsNotPlannedAreBehindTheOthers) {
  Units units({128, 256, 384}, {WEFT_SHARD_FULL_SHARD});
  const Schedule schedule =
      MakeSchedule(units.input, PredictEvents(std::vector<int>{0, 2}, true, 1));
  const FixedPlaces places = PlacesOf(schedule, units.layout);
  EXPECT_EQ(places.offsets[1], schedule.fixed_bytes);
  EXPECT_EQ(places.bytes, schedule.fixed_bytes + 1024);
}

TEST(FixedPlaces, ApartAreOneBehindTheOther) {
  const Units units({128, 256, 384}, {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_ZERO1});
  const FixedPlaces places = PlacesApart(units.layout);
  EXPECT_EQ(places.offsets, (std::vector<size_t>{0, FixedPlaces::kNowhere, 512}));
  EXPECT_EQ(places.bytes, 512u + 1536u);
}

std::vector<Event> RandomEvents(Random& random, int units) {
  std::vector<int> order(static_cast<size_t>(units));
  std::iota(order.begin(), order.end(), 0);
  std::vector<Event> events;
  for (int m = 1 + Pick(random, 3); m > 0; --m) {
    events.push_back({Kind::kMicrobatchBegin, m == 1 ? 1 : 0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int> runs = order;
    if (Pick(random, 2) == 0) runs.push_back(Pick(random, units));
    for (const int unit : runs) {
      events.push_back({Kind::kPreForward, unit});
      events.push_back({Kind::kPostForward, unit});
    }
    std::shuffle(runs.begin(), runs.end(), random);
    for (const int unit : runs) {
      events.push_back({Kind::kPreBackward, unit});
      events.push_back({Kind::kPostBackward, unit});
    }
    events.push_back({Kind::kMicrobatchEnd, 0});
  }
  events.push_back({Kind::kFinish, 0});
  return events;
}

// Whenever a unit is in use a residency of it holds; gathers are in the order in which they are needed, and begin in that order.
void ExpectServed(const Units& units, const Schedule& schedule) {
  UnitTracker tracker(units.registry.units());
  for (size_t at = 0; at < schedule.events.size(); ++at) {
    const Event& event = schedule.events[at];
    if (event.kind == Kind::kMicrobatchBegin) tracker.Reset();
    tracker.OnCall(event);
    for (size_t unit = 0; unit < units.layout.units.size(); ++unit) {
      if (units.layout.units[unit].bytes == 0 || !tracker.Of(static_cast<int>(unit)).Kept())
        continue;
      const auto time = static_cast<int64_t>(2 * at);
      const auto holds = [&](const Residency& one) {
        return one.index == static_cast<int>(unit) && one.begin <= time && time <= one.end;
      };
      EXPECT_EQ(std::count_if(schedule.gathers.begin(), schedule.gathers.end(), holds), 1)
          << "unit " << unit << " at event " << at;
    }
  }
  for (size_t i = 0; i < schedule.gathers.size(); ++i) {
    EXPECT_LE(schedule.gathers[i].begin, 2 * schedule.gathers[i].need);
    if (i == 0) continue;
    EXPECT_LE(schedule.gathers[i - 1].need, schedule.gathers[i].need);
    EXPECT_LE(schedule.gathers[i - 1].begin, schedule.gathers[i].begin);
  }
}

TEST(FixedPlaces, AreKeptToWhateverTheCallsAre) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const int count = 2 + Pick(random, 7);
    std::vector<int64_t> counts(static_cast<size_t>(count));
    for (int64_t& one : counts)
      one = 128 * (1 + Pick(random, 5));
    const std::vector<weft_shard_preset_t> some = {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_GRAD_OP,
                                                   WEFT_SHARD_FRACTION, WEFT_SHARD_HPZ};
    std::vector<weft_shard_preset_t> presets;
    for (int i = 0; i < count; ++i)
      presets.push_back(some[static_cast<size_t>(Pick(random, 4))]);
    Units units(counts, presets);
    units.input.prefetch = Pick(random, 4);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<Event> planned =
        PredictEvents(static_cast<size_t>(count), true, 1 + Pick(random, 2));
    if (Pick(random, 3) == 0) {
      const Schedule free = MakeSchedule(units.input, planned);
      units.input.budget_bytes = (free.fixed_bytes + free.pool_bytes) * 2 / 3;
    }
    const Schedule first = MakeSchedule(units.input, planned);
    ExpectApart(first.gathers);
    ExpectServed(units, first);
    const FixedPlaces places = PlacesOf(first, units.layout);
    units.input.places = &places;
    const Schedule later = MakeSchedule(units.input, RandomEvents(random, count));
    EXPECT_EQ(later.fixed_bytes, places.bytes);
    for (const Residency& one : later.gathers)
      EXPECT_EQ(one.offset, places.offsets[static_cast<size_t>(one.index)]);
    ExpectApart(later.gathers);
    ExpectServed(units, later);
    if (HasFailure()) return;
  }
}

// Where it fits without, a budget takes nothing away; with less it is kept to, as long as anything fits.
TEST(FixedPlaces, FitInTheBudget) {
  Units units(std::vector<int64_t>(8, 128), {WEFT_SHARD_FRACTION});
  size_t kept_before = 0;
  for (size_t units_of_pool = 4; units_of_pool <= 12; ++units_of_pool) {
    units.input.budget_bytes = units_of_pool * 512;
    const Schedule schedule = MakeSchedule(units.input, PredictEvents(8, true, 1));
    EXPECT_LE(schedule.fixed_bytes + schedule.pool_bytes, units.input.budget_bytes);
    const size_t kept = 16 - schedule.gather_count();
    EXPECT_GE(kept, kept_before);
    kept_before = kept;
  }
  EXPECT_EQ(kept_before, 8u);
}

}  // namespace
}  // namespace weft::fixed_places_test
