#include "shard/step/schedule.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/step/prediction.h"
#include "shard/step/step_state.h"
#include "shard/step/unit_tracker.h"

namespace weft::schedule_test {
namespace {

using Kind = Event::Kind;

constexpr size_t kUnitBytes = 512;

struct UnitOf {
  weft_shard_preset_t preset = WEFT_SHARD_FULL_SHARD;
  std::vector<int64_t> params = {128};
};

Registry MakeRegistry(const std::vector<UnitOf>& units) {
  Registry registry;
  for (const UnitOf& one : units) {
    const std::string name = "u" + std::to_string(registry.units().size());
    const int unit = *registry.BeginUnit(name, PlacementOf(one.preset));
    for (const int64_t& count : one.params) {
      const std::string param = "p" + std::to_string(registry.params().size());
      EXPECT_TRUE(registry.AddParam(unit, param, &count, 1, WEFT_FLOAT32).ok());
    }
    EXPECT_TRUE(registry.SealUnit(unit).ok());
  }
  return registry;
}

std::vector<UnitOf> Equal(size_t units, weft_shard_preset_t preset) {
  return std::vector<UnitOf>(units, {.preset = preset});
}

// A registry, its layout, and what is asked of a schedule for them.
struct Model {
  explicit Model(const std::vector<UnitOf>& units, const BucketLimits& limits = {})
      : registry(MakeRegistry(units)),
        layout(MakeLayout(registry, limits, {.rank = 0, .size = 2})) {
    input.layout = &layout;
    input.units = &registry.units();
  }

  Schedule Predicted(int microbatches = 1) const {
    return MakeSchedule(input, PredictEvents(registry.units().size(), input.train, microbatches));
  }

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Registry registry;
  Layout layout;
  ScheduleInput input;
};

int64_t At(size_t event) {
  return 2 * static_cast<int64_t>(event);
}

// ---- what every schedule has to keep -------------------------------------------------------------

bool InTime(const Residency& a, const Residency& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

bool InSpace(const Residency& a, const Residency& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// The gradients that were last at some byte of `one`, byte range by byte range.
std::vector<int> LastBefore(const Residency& one, const std::vector<Residency>& gradients) {
  std::set<size_t> starts = {one.offset};
  for (const Residency& other : gradients) {
    for (const size_t at : {other.offset, other.offset + other.bytes}) {
      if (at > one.offset && at < one.offset + one.bytes) starts.insert(at);
    }
  }
  std::set<int> found;
  for (const size_t byte : starts) {
    int last = -1;
    for (size_t g = 0; g < gradients.size(); ++g) {
      const Residency& other = gradients[g];
      const bool there = other.offset <= byte && byte < other.offset + other.bytes;
      if (!there || other.end >= one.begin || one.bytes == 0) continue;
      if (last < 0 || other.begin > gradients[static_cast<size_t>(last)].begin) {
        last = static_cast<int>(g);
      }
    }
    if (last >= 0) found.insert(last);
  }
  return {found.begin(), found.end()};
}

void ExpectPlacesApart(const Schedule& schedule) {
  std::vector<Residency> all = schedule.gathers;
  all.insert(all.end(), schedule.gradients.begin(), schedule.gradients.end());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_LE(all[i].offset + all[i].bytes, schedule.pool_bytes);
    EXPECT_LE(all[i].begin, At(static_cast<size_t>(all[i].need)));
    EXPECT_LE(At(static_cast<size_t>(all[i].need)), all[i].end);
    EXPECT_LE(all[i].end, At(schedule.events.size() - 1));
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(InTime(all[i], all[j]) && InSpace(all[i], all[j])) << i << " and " << j;
    EXPECT_EQ(all[i].after, LastBefore(all[i], schedule.gradients));
  }
}

void ExpectInOrder(const std::vector<Residency>& list) {
  for (size_t i = 1; i < list.size(); ++i) {
    EXPECT_LE(list[i - 1].need, list[i].need);
    EXPECT_LE(list[i - 1].begin, list[i].begin);
  }
}

void ExpectOncePerIndex(const std::vector<Residency>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(list[i].index == list[j].index && InTime(list[i], list[j])) << i << " " << j;
  }
}

// The one of `index` that holds from half step `from` until `to`.
bool Covered(const std::vector<Residency>& list, int index, int64_t from, int64_t to) {
  return std::any_of(list.begin(), list.end(), [&](const Residency& one) {
    return one.index == index && one.begin <= from && to <= one.end;
  });
}

// Units are unsharded from each pre_ call until its post_, and are resharded at a call that may do so.
void ExpectUnitsWhole(const Model& model, const Schedule& schedule) {
  const size_t units = model.registry.units().size();
  for (size_t u = 0; u < units; ++u) {
    if (model.layout.units[u].bytes == 0) continue;
    const int unit = static_cast<int>(u);
    std::vector<bool> lets_go(schedule.events.size(), false);
    int uses = 0;
    bool backward = false;
    size_t since = 0;
    for (size_t at = 0; at < schedule.events.size(); ++at) {
      const Event& event = schedule.events[at];
      if (event.index != unit || event.kind < Kind::kPreForward ||
          event.kind > Kind::kPostBackward) {
        continue;
      }
      if (uses == 0 && !backward) since = at;
      uses += event.kind == Kind::kPreForward ? 1 : event.kind == Kind::kPostForward ? -1 : 0;
      if (event.kind == Kind::kPreBackward) backward = true;
      if (event.kind == Kind::kPostBackward) backward = false;
      if (uses > 0 || backward) continue;
      lets_go[at] = true;
      EXPECT_TRUE(Covered(schedule.gathers, unit, At(since), At(at)))
          << "unit " << u << " from event " << since << " to " << at;
    }
    for (const Residency& one : schedule.gathers) {
      if (one.index != unit) continue;
      ASSERT_EQ(one.end % 2, 0);
      EXPECT_TRUE(lets_go[static_cast<size_t>(one.end / 2)]) << "unit " << u << " stays for ever";
      EXPECT_EQ(schedule.events[static_cast<size_t>(one.need)].index, unit);
    }
  }
}

// Follows backward as the context does: which buckets get gradients when, in which order their reductions
// start, and that they have their place meanwhile.
void ExpectGradientsWhole(const Model& model, const Schedule& schedule) {
  const std::vector<Bucket>& buckets = model.layout.buckets;
  std::vector<int> since(buckets.size(), -1);
  std::vector<int> done(model.registry.units().size(), 0);
  const std::vector<UnitRuns> runs = RunsOf(schedule.events, model.registry.units());
  size_t next_needed = 0;
  const auto cut = [&](int bucket) {
    const int unit = buckets[static_cast<size_t>(bucket)].units[0];
    return model.registry.units()[static_cast<size_t>(unit)].placement.gradients_sharded;
  };
  const auto need = [&](int bucket, size_t at) {
    if (!cut(bucket) || since[static_cast<size_t>(bucket)] >= 0) return;
    since[static_cast<size_t>(bucket)] = static_cast<int>(at);
    ASSERT_LT(next_needed, schedule.gradients.size());
    EXPECT_EQ(schedule.gradients[next_needed++].index, bucket) << "needed at event " << at;
  };
  bool reduces = false;
  size_t started = 0;
  const auto start = [&](size_t at, bool all) {
    for (; started < schedule.order.size(); ++started) {
      const int bucket = schedule.order[started];
      for (const int unit : buckets[static_cast<size_t>(bucket)].units) {
        const auto u = static_cast<size_t>(unit);
        if (!all && done[u] < std::max(1, runs[u].backwards)) return;
      }
      need(bucket, at);
      if (!cut(bucket)) continue;
      int& from = since[static_cast<size_t>(bucket)];
      EXPECT_TRUE(Covered(schedule.gradients, bucket, At(static_cast<size_t>(from)), At(at)))
          << "bucket " << bucket << " from event " << from << " to " << at;
      from = -1;
    }
  };
  for (size_t at = 0; at < schedule.events.size(); ++at) {
    const Event& event = schedule.events[at];
    if (event.kind == Kind::kMicrobatchBegin) {
      reduces = model.input.reduces_every || event.index == 1;
      std::fill(done.begin(), done.end(), 0);
      started = 0;
    }
    if (event.kind == Kind::kPreBackward) {
      for (size_t b = 0; b < buckets.size(); ++b) {
        const std::vector<int>& units = buckets[b].units;
        if (std::find(units.begin(), units.end(), event.index) != units.end())
          need(static_cast<int>(b), at);
      }
    }
    if (event.kind == Kind::kPostBackward) {
      ++done[static_cast<size_t>(event.index)];
      if (reduces && model.input.overlap) start(at, false);
    }
    if (event.kind == Kind::kMicrobatchEnd && reduces && model.input.train) start(at, true);
  }
  EXPECT_EQ(next_needed, schedule.gradients.size());
}

void ExpectSound(const Model& model, const Schedule& schedule) {
  ExpectPlacesApart(schedule);
  ExpectInOrder(schedule.gathers);
  ExpectOncePerIndex(schedule.gathers);
  ExpectOncePerIndex(schedule.gradients);
  ExpectUnitsWhole(model, schedule);
  ExpectGradientsWhole(model, schedule);
  EXPECT_GE(schedule.pool_bytes, LeastPoolBytes(schedule));
  std::vector<int> order = schedule.order;
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i], static_cast<int>(i));
  EXPECT_EQ(order.size(), model.layout.buckets.size());
}

// ---- plans ---------------------------------------------------------------------------------------

TEST(PredictEvents, UsesEveryUnitOnceInOrder) {
  const std::vector<Event> events = PredictEvents(2, /*train=*/true, 1);
  EXPECT_EQ(events, (std::vector<Event>{{Kind::kMicrobatchBegin, 1},
                                        {Kind::kPreForward, 0},
                                        {Kind::kPostForward, 0},
                                        {Kind::kPreForward, 1},
                                        {Kind::kPostForward, 1},
                                        {Kind::kPreBackward, 1},
                                        {Kind::kPostBackward, 1},
                                        {Kind::kPreBackward, 0},
                                        {Kind::kPostBackward, 0},
                                        {Kind::kMicrobatchEnd, 0},
                                        {Kind::kFinish, 0}}));
  const std::vector<Event> eval = PredictEvents(1, /*train=*/false, 2);
  EXPECT_EQ(eval, (std::vector<Event>{{Kind::kMicrobatchBegin, 0},
                                      {Kind::kPreForward, 0},
                                      {Kind::kPostForward, 0},
                                      {Kind::kMicrobatchEnd, 0},
                                      {Kind::kMicrobatchBegin, 1},
                                      {Kind::kPreForward, 0},
                                      {Kind::kPostForward, 0},
                                      {Kind::kMicrobatchEnd, 0},
                                      {Kind::kFinish, 0}}));
}

TEST(PredictEvents, RunsBackwardAsTheReverseOfAnOrder) {
  const std::vector<Event> events = PredictEvents(std::vector<int>{0, 2, 0}, /*train=*/true, 1);
  std::vector<int> forward, backward;
  for (const Event& event : events) {
    if (event.kind == Kind::kPostForward) forward.push_back(event.index);
    if (event.kind == Kind::kPostBackward) backward.push_back(event.index);
  }
  EXPECT_EQ(forward, (std::vector<int>{0, 2, 0}));
  EXPECT_EQ(backward, (std::vector<int>{0, 2, 0}));
  EXPECT_EQ(RunsOf(events, MakeRegistry(Equal(3, WEFT_SHARD_NO_SHARD)).units()),
            (std::vector<UnitRuns>{{2, 2}, {0, 0}, {1, 1}}));
}

TEST(PredictEvents, KeepsOuterUnitsWhileInnerOnesAreUsed) {
  // 1 and 3 in 0, 2 in 1; 5 in 4, which is not used.
  const std::vector<Event> events =
      PredictEvents({3, 1, 2, 5, 0}, {-1, 0, 1, 0, -1, 4}, /*train=*/true, 1);
  std::string calls;
  for (const Event& event : events) {
    if (event.kind == Kind::kPreForward) calls += StrCat(" ", event.index, "(");
    if (event.kind == Kind::kPostForward) calls += StrCat(" )", event.index);
    if (event.kind == Kind::kPreBackward) calls += StrCat(" ", event.index, "[");
    if (event.kind == Kind::kPostBackward) calls += StrCat(" ]", event.index);
  }
  EXPECT_EQ(calls, " 5( )5 0( 3( )3 1( 2( )2 )1 )0 0[ 1[ 2[ ]2 ]1 3[ ]3 ]0 5[ ]5");
}

TEST(RunsOf, CountsMicrobatchesWithBackwardOnly) {
  std::vector<Event> events = PredictEvents(std::vector<int>{0, 0, 0}, /*train=*/false, 1);
  events.pop_back();  // finish
  const std::vector<Event> with_backward = PredictEvents(std::vector<int>{0}, /*train=*/true, 1);
  events.insert(events.end(), with_backward.begin(), with_backward.end());
  EXPECT_EQ(RunsOf(events, MakeRegistry(Equal(1, WEFT_SHARD_NO_SHARD)).units()),
            (std::vector<UnitRuns>{{1, 1}}));
}

TEST(MakeSchedule, KeepsGradOpUntilTheLastOfSeveralBackwards) {
  const Model model(Equal(3, WEFT_SHARD_GRAD_OP));
  const Schedule schedule =
      MakeSchedule(model.input, PredictEvents(std::vector<int>{0, 1, 2, 0}, true, 1));
  ExpectSound(model, schedule);
  ASSERT_EQ(schedule.gathers.size(), 3u);
  EXPECT_EQ(schedule.gathers[0].index, 0);
  // Microbatch begin, four uses of two calls forward, three backward, and the last post_backward.
  EXPECT_EQ(schedule.gathers[0].end, At(16));
}

TEST(MakeSchedule, NeedsTwoUnitsInForwardAndThreeInBackward) {
  for (const size_t units : {3, 4, 10}) {
    Model model(Equal(units, WEFT_SHARD_FULL_SHARD));
    const Schedule schedule = model.Predicted();
    ExpectSound(model, schedule);
    EXPECT_EQ(schedule.pool_bytes, 3 * kUnitBytes);
    EXPECT_EQ(schedule.gathers.size(), 2 * units - 1) << "the last unit stays";
    model.input.train = false;
    const Schedule eval = model.Predicted();
    ExpectSound(model, eval);
    EXPECT_EQ(eval.pool_bytes, 2 * kUnitBytes);
    EXPECT_EQ(eval.gathers.size(), units);
    EXPECT_TRUE(eval.gradients.empty());
  }
}

TEST(MakeSchedule, GathersAsFarAheadAsItIsTold) {
  for (int prefetch = 0; prefetch <= 4; ++prefetch) {
    SCOPED_TRACE(prefetch);
    Model model(Equal(8, WEFT_SHARD_FULL_SHARD));
    model.input.prefetch = prefetch;
    model.input.train = false;
    const Schedule schedule = model.Predicted();
    ExpectSound(model, schedule);
    EXPECT_EQ(schedule.prefetch, prefetch);
    EXPECT_EQ(schedule.pool_bytes, static_cast<size_t>(prefetch + 1) * kUnitBytes);
    model.input.train = true;
    ExpectSound(model, model.Predicted());
  }
}

TEST(MakeSchedule, GivesUpPrefetchingForTheBudgetFirst) {
  Model model(Equal(6, WEFT_SHARD_FRACTION));
  model.input.prefetch = 4;
  size_t last_bytes = 0;
  int last_prefetch = 0;
  size_t last_gathers = ~size_t{0};
  for (size_t budget = 3 * kUnitBytes; budget <= 16 * kUnitBytes; budget += kUnitBytes / 2) {
    SCOPED_TRACE(budget);
    model.input.budget_bytes = budget;
    const Schedule schedule = model.Predicted();
    ExpectSound(model, schedule);
    EXPECT_LE(schedule.pool_bytes, budget);
    EXPECT_GE(schedule.pool_bytes, last_bytes);
    EXPECT_GE(schedule.prefetch, last_prefetch);
    // Keeping uses what prefetching leaves, so it is monotone while prefetching stays the same.
    if (schedule.prefetch == last_prefetch) {
      EXPECT_LE(schedule.gathers.size(), last_gathers);
    }
    if (schedule.prefetch < 4) {
      ++model.input.prefetch;
      EXPECT_EQ(model.Predicted().prefetch, schedule.prefetch) << "as much as fits";
      --model.input.prefetch;
    }
    last_bytes = schedule.pool_bytes;
    last_prefetch = schedule.prefetch;
    last_gathers = schedule.gathers.size();
  }
  EXPECT_EQ(last_prefetch, 4);
  EXPECT_EQ(last_gathers, 6u) << "all of them stay whole";
}

TEST(MakeSchedule, ReturnsTheLeastIfNothingFits) {
  Model model(Equal(4, WEFT_SHARD_FRACTION));
  model.input.budget_bytes = 1;
  const Schedule schedule = model.Predicted();
  ExpectSound(model, schedule);
  EXPECT_EQ(schedule.prefetch, 0);
  EXPECT_GT(schedule.pool_bytes, 1u);
  EXPECT_EQ(schedule.gathers.size(), 7u);
}

TEST(MakeSchedule, KeepsAsManyUnitsOfFractionAsFit) {
  constexpr size_t kUnits = 7;
  Model model(Equal(kUnits, WEFT_SHARD_FRACTION));
  const size_t least = 3 * kUnitBytes;
  size_t last = 2 * kUnits;
  for (size_t more = 0; more <= kUnits; ++more) {
    SCOPED_TRACE(more);
    model.input.budget_bytes = least + more * kUnitBytes;
    const Schedule schedule = model.Predicted();
    ExpectSound(model, schedule);
    EXPECT_EQ(schedule.prefetch, 1);
    EXPECT_LE(schedule.pool_bytes, model.input.budget_bytes);
    EXPECT_LE(schedule.gathers.size(), last);
    last = schedule.gathers.size();
    // The last ones stay, so those that are gathered twice are the first.
    for (size_t i = kUnits; i < schedule.gathers.size(); ++i)
      EXPECT_LT(static_cast<size_t>(schedule.gathers[i].index), schedule.gathers.size() - kUnits);
  }
  EXPECT_EQ(last, kUnits);
  model.input.budget_bytes = 0;
  EXPECT_EQ(model.Predicted().gathers.size(), kUnits);
}

TEST(MakeSchedule, KeepsGradOpUntilPostBackward) {
  Model model(Equal(5, WEFT_SHARD_GRAD_OP));
  const Schedule schedule = model.Predicted();
  ExpectSound(model, schedule);
  ASSERT_EQ(schedule.gathers.size(), 5u);
  for (const Residency& one : schedule.gathers) {
    const Event& event = schedule.events[static_cast<size_t>(one.end / 2)];
    EXPECT_EQ(event, (Event{Kind::kPostBackward, one.index}));
  }
  model.input.train = false;
  const Schedule eval = model.Predicted();
  ExpectSound(model, eval);
  for (const Residency& one : eval.gathers) {
    EXPECT_EQ(eval.events[static_cast<size_t>(one.end / 2)], (Event{Kind::kPostForward, one.index}))
        << "nothing comes after forward";
  }
}

TEST(MakeSchedule, HoldsGradientsOverMicrobatchesUnlessEachIsReduced) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
    Model model(Equal(4, preset), {.bucket_bytes = 512, .first_bucket_bytes = 512});
    model.input.reduces_every = false;
    const Schedule locally = model.Predicted(3);
    ExpectSound(model, locally);
    EXPECT_EQ(locally.gradients.size(), 4u);
    EXPECT_GE(locally.pool_bytes, 4 * kUnitBytes);
    model.input.reduces_every = true;
    const Schedule every = model.Predicted(3);
    ExpectSound(model, every);
    EXPECT_EQ(every.gradients.size(), 12u);
    EXPECT_EQ(every.pool_bytes, model.Predicted(1).pool_bytes) << "micro-batches cost nothing";
    model.input.overlap = false;
    model.input.prefetch = 0;
    EXPECT_EQ(model.Predicted(3).pool_bytes, model.Predicted(1).pool_bytes);
    ExpectSound(model, model.Predicted(3));
  }
}

TEST(MakeSchedule, HoldsGradientsOfABucketUntilAllItsUnitsAreThrough) {
  // Units 0 and 1 share a bucket, 0 never runs backward: the bucket is reduced when the micro-batch ends.
  Model model(Equal(3, WEFT_SHARD_ZERO2), {.bucket_bytes = 1024, .first_bucket_bytes = 512});
  ASSERT_EQ(model.layout.buckets.size(), 2u);
  std::vector<Event> events = PredictEvents(3, true, 1);
  std::swap(events[7], events[9]);  // 1 before 2
  std::swap(events[8], events[10]);
  events.erase(events.begin() + 11, events.begin() + 13);
  const Schedule schedule = MakeSchedule(model.input, events);
  ExpectSound(model, schedule);
  EXPECT_EQ(schedule.order, (std::vector<int>{0, 1}));
  EXPECT_TRUE(Covered(schedule.gradients, 1, At(7), At(11)));
}

TEST(MakeSchedule, OfNothing) {
  Model none({});
  const Schedule schedule = none.Predicted();
  EXPECT_EQ(schedule.pool_bytes, 0u);
  EXPECT_TRUE(schedule.gathers.empty());
  Model empty({{.params = {}}, {.params = {0}}, {.params = {128}}});
  ExpectSound(empty, empty.Predicted(2));
}

// ---- micro-batches alike ---------------------------------------------------------------------------

// The step as a whole, as a schedule that has all of it written.
Schedule Expanded(const Schedule& schedule) {
  Schedule whole{.events = schedule.AllEvents(),
                 .parts = schedule.parts,
                 .order = schedule.order,
                 .pool_bytes = schedule.pool_bytes,
                 .prefetch = schedule.prefetch};
  const auto expand = [](const Occurrence& one) {
    Residency written{.index = one.index(),
                      .need = static_cast<int>(one.need()),
                      .begin = one.begin(),
                      .end = one.end(),
                      .bytes = one.bytes(),
                      .offset = one.offset(),
                      .part = one.part()};
    for (size_t i = 0; i < one.after_count(); ++i)
      written.after.push_back(static_cast<int>(one.after(i)));
    return written;
  };
  for (size_t i = 0; i < schedule.gather_count(); ++i)
    whole.gathers.push_back(expand(schedule.Gather(i)));
  for (size_t i = 0; i < schedule.gradient_count(); ++i)
    whole.gradients.push_back(expand(schedule.Gradient(i)));
  return whole;
}

constexpr weft_shard_preset_t kCuttingPresets[] = {WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
                                                   WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HPZ,
                                                   WEFT_SHARD_FRACTION};

TEST(ManyMicrobatches, HaveASoundScheduleOfAFew) {
  int repeated = 0;
  int all = 0;
  for (const weft_shard_preset_t preset : kCuttingPresets) {
    for (const bool mixed : {false, true}) {
      std::vector<UnitOf> units = Equal(5, preset);
      if (mixed) {
        for (size_t i = 0; i < units.size(); ++i)
          units[i].params = {static_cast<int64_t>(100 + 190 * (i * 3 % 5)), 60};
      }
      for (int variant = 0; variant < 16; ++variant) {
        SCOPED_TRACE(testing::Message()
                     << PresetName(preset) << " mixed " << mixed << " variant " << variant);
        Model model(units, {.bucket_bytes = 1500, .first_bucket_bytes = 600});
        model.input.train = variant % 8 != 0;
        model.input.reduces_every = (variant & 1) != 0;
        model.input.overlap = (variant & 2) == 0;
        model.input.prefetch = (variant & 4) == 0 ? 1 : 3;
        if (preset == WEFT_SHARD_FRACTION) model.input.budget_bytes = 8 * kUnitBytes;
        for (const int microbatches : {9, 10, 24}) {
          const Schedule schedule = model.Predicted(microbatches);
          const Schedule whole = Expanded(schedule);
          EXPECT_EQ(whole.events, PredictEvents(units.size(), model.input.train, microbatches));
          ExpectSound(model, whole);
          if (testing::Test::HasFailure()) return;
          if (microbatches < 24) continue;
          ++all;
          repeated += schedule.repeat.times > 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GE(repeated * 10, all * 9) << repeated << " of " << all << " are repeated";
}

TEST(ManyMicrobatches, NeedNoLargerPoolThanAFew) {
  for (const weft_shard_preset_t preset : kCuttingPresets) {
    for (const bool every : {false, true}) {
      SCOPED_TRACE(testing::Message() << PresetName(preset) << " every " << every);
      Model model(Equal(6, preset));
      model.input.reduces_every = every;
      EXPECT_EQ(model.Predicted(60).pool_bytes, model.Predicted(8).pool_bytes);
    }
  }
}

TEST(ManyMicrobatches, OfOtherCallsInBetweenAreWrittenAsFarAsTheyDiffer) {
  Model model(Equal(4, WEFT_SHARD_FULL_SHARD));
  std::vector<Event> events;
  for (int m = 0; m < 40; ++m) {
    const std::vector<int> order =
        m < 3 || m == 20 ? std::vector<int>{0, 2, 1, 3} : std::vector<int>{0, 1, 2, 3};
    std::vector<Event> one = PredictEvents(order, true, 1);
    one.pop_back();
    one.front().index = m == 39 ? 1 : 0;
    events.insert(events.end(), one.begin(), one.end());
  }
  events.push_back({Kind::kFinish, 0});
  const Schedule schedule = MakeSchedule(model.input, events);
  EXPECT_GT(schedule.repeat.times, 0u);
  const Schedule whole = Expanded(schedule);
  EXPECT_EQ(whole.events, events);
  ExpectSound(model, whole);
}

// ---- random steps --------------------------------------------------------------------------------

// The calls that one unit makes in a micro-batch, in its order.
std::vector<Kind> UnitCalls(std::mt19937& random) {
  std::vector<Kind> calls;
  const uint32_t forwards = random() % 3;
  const bool nested = random() % 4 == 0;
  for (uint32_t i = 0; i < forwards; ++i) {
    calls.insert(calls.end(), {Kind::kPreForward, Kind::kPostForward});
  }
  if (nested && forwards == 2) std::swap(calls[1], calls[2]);
  // One within the other counts once.
  const uint32_t backwards_max = nested ? std::min(1u, forwards) : forwards;
  const uint32_t backwards = random() % (backwards_max + 1);
  for (uint32_t i = 0; i < backwards; ++i) {
    calls.push_back(Kind::kPreBackward);
    if (random() % 3 == 0) calls.insert(calls.end(), {Kind::kPreForward, Kind::kPostForward});
    calls.push_back(Kind::kPostBackward);
  }
  return calls;
}

// Units take turns at random; the state machine sees every call.
std::vector<Event> RandomEvents(const Registry& registry, std::mt19937& random, bool train) {
  std::vector<Event> events;
  StepState state(registry);
  std::vector<int> settled;
  EXPECT_TRUE(state.StepBegin(WEFT_SHARD_TRAIN, 0).ok());
  const int microbatches = 1 + static_cast<int>(random() % 3);
  for (int m = 0; m < microbatches; ++m) {
    const bool last = m == microbatches - 1;
    EXPECT_TRUE(state.MicrobatchBegin(m, last).ok());
    events.push_back({Kind::kMicrobatchBegin, last ? 1 : 0});
    std::vector<std::vector<Kind>> calls;
    std::vector<size_t> next(registry.units().size(), 0);
    for (size_t u = 0; u < next.size(); ++u)
      calls.push_back(UnitCalls(random));
    const uint32_t stay = 1 + random() % 8;  // how long one unit goes on
    size_t unit = 0;
    const auto left = [&](size_t u) {
      return next[u] < calls[u].size();
    };
    for (;;) {
      std::vector<size_t> open;
      for (size_t u = 0; u < next.size(); ++u)
        if (left(u)) open.push_back(u);
      if (open.empty()) break;
      if (!left(unit) || random() % stay == 0) unit = open[random() % open.size()];
      const Event event{calls[unit][next[unit]++], static_cast<int>(unit)};
      absl::Status status;
      if (event.kind == Kind::kPreForward) status = state.PreForward(event.index);
      if (event.kind == Kind::kPostForward) status = state.PostForward(event.index);
      if (!train && event.kind >= Kind::kPreBackward) {
        next[unit] = calls[unit].size();
        continue;
      }
      if (event.kind == Kind::kPreBackward) status = state.PreBackward(event.index);
      if (event.kind == Kind::kPostBackward) status = state.PostBackward(event.index, settled);
      EXPECT_TRUE(status.ok()) << status;
      events.push_back(event);
    }
    EXPECT_TRUE(state.MicrobatchEnd(settled).ok());
    events.push_back({Kind::kMicrobatchEnd, 0});
  }
  events.push_back({Kind::kFinish, 0});
  return events;
}

TEST(MakeSchedule, IsSoundForRandomSteps) {
  constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,
                                              WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                              WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION};
  for (uint32_t seed = 1; seed <= 600 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<UnitOf> units(1 + random() % 6);
    for (UnitOf& unit : units) {
      unit.preset = kPresets[random() % std::size(kPresets)];
      unit.params.clear();
      for (uint32_t p = random() % 4; p > 0; --p)
        unit.params.push_back(random() % 600);
    }
    Model model(units, {.bucket_bytes = 1 + random() % 8000, .first_bucket_bytes = 2000});
    model.input.train = random() % 4 != 0;
    model.input.reduces_every = random() % 2 == 0;
    model.input.overlap = random() % 3 != 0;
    model.input.prefetch = static_cast<int>(random() % 5);
    model.input.budget_bytes = random() % 2 == 0 ? 0 : 1 + random() % 20000;
    const std::vector<Event> events = RandomEvents(model.registry, random, model.input.train);
    const Schedule schedule = MakeSchedule(model.input, events);
    EXPECT_EQ(schedule.events, events);
    ExpectSound(model, schedule);
  }
}

}  // namespace
}  // namespace weft::schedule_test
