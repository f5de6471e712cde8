#include "shard/layout/layout.h"

#include <algorithm>
#include <random>
#include <string>

#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"

namespace weft::layout_test {
namespace {

void Add(Registry& registry, int unit, int64_t count, weft_dtype_t dtype = WEFT_FLOAT32,
         bool frozen = false) {
  const std::string name = "p" + std::to_string(registry.params().size());
  ASSERT_TRUE(
      registry.AddParam(unit, name, &count, 1, dtype, frozen ? WEFT_SHARD_PARAM_FROZEN : 0).ok());
}

int Begin(Registry& registry) {
  return *registry.BeginUnit("u" + std::to_string(registry.units().size()));
}

// One unit per list of element counts.
Registry UnitsOf(const std::vector<std::vector<int64_t>>& units) {
  Registry registry;
  for (const std::vector<int64_t>& counts : units) {
    const int unit = Begin(registry);
    for (const int64_t count : counts)
      Add(registry, unit, count);
    EXPECT_TRUE(registry.SealUnit(unit).ok());
  }
  return registry;
}

std::vector<std::vector<int>> Members(const Layout& layout) {
  std::vector<std::vector<int>> members;
  for (const Bucket& bucket : layout.buckets)
    members.push_back(bucket.params);
  return members;
}

using Lists = std::vector<std::vector<int>>;

TEST(Layout, MergesWholeUnitsFromTheLast) {
  // Units of 400 B in places of 512; the first bucket takes one, the others two each.
  const Registry registry = UnitsOf({{100}, {100}, {100}, {100}, {100}});
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 1100, .first_bucket_bytes = 600});
  EXPECT_EQ(Members(layout), (Lists{{4}, {2, 3}, {0, 1}}));
  EXPECT_EQ(layout.buckets[1].units, (std::vector<int>{2, 3}));
}

TEST(Layout, KeepsAUnitTogetherThatFitsALimitOfItsOwn) {
  const Registry registry = UnitsOf({{128, 128, 128}, {128, 128}});
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 2048, .first_bucket_bytes = 2048});
  EXPECT_EQ(Members(layout), (Lists{{3, 4}, {0, 1, 2}}));
}

TEST(Layout, CutsAUnitLargerThanTheLimitBetweenItsParams) {
  const Registry registry = UnitsOf({{128, 128, 128, 128, 128}});
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 1024, .first_bucket_bytes = 512});
  EXPECT_EQ(Members(layout), (Lists{{4}, {2, 3}, {0, 1}}));
}

TEST(Layout, MergesTheRestOfACutUnitWithTheNextUnit) {
  const Registry registry = UnitsOf({{128}, {128, 128, 128}});
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 1024, .first_bucket_bytes = 1024});
  EXPECT_EQ(Members(layout), (Lists{{2, 3}, {0, 1}}));
}

TEST(Layout, NeverCutsAParam) {
  const Registry registry = UnitsOf({{8}, {100096}, {8}});
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 1024, .first_bucket_bytes = 1024});
  EXPECT_EQ(Members(layout), (Lists{{2}, {1}, {0}}));
  EXPECT_EQ(layout.buckets[1].bytes, 400384u);
}

TEST(Layout, HasOneExtentPerDtypeInABucket) {
  Registry registry;
  const int unit = Begin(registry);
  Add(registry, unit, 10, WEFT_FLOAT32);
  Add(registry, unit, 10, WEFT_BFLOAT16);
  Add(registry, unit, 10, WEFT_FLOAT32);
  Add(registry, unit, 10, WEFT_FLOAT32, /*frozen=*/true);
  ASSERT_TRUE(registry.SealUnit(unit).ok());
  const Layout layout = MakeLayout(registry, {});
  ASSERT_EQ(layout.buckets.size(), 1u);
  ASSERT_EQ(layout.buckets[0].pack.extents, (std::vector<int>{0, 1}));
  EXPECT_EQ(layout.extents[0].range.count, 256u);  // two times 10 float32, each padded to 128
  EXPECT_EQ(layout.extents[1].range.count, 128u);
  EXPECT_EQ(layout.buckets[0].pack.offsets, (std::vector<size_t>{0, 1024}));
  EXPECT_EQ(layout.buckets[0].bytes, 256u * 4 + 128u * 2);
  EXPECT_EQ(layout.places[3].bucket, -1);
  ASSERT_EQ(layout.frozen.size(), 1u);
  EXPECT_EQ(layout.frozen[0].count, 128u);
}

TEST(Layout, OfNothingIsEmpty) {
  const Layout layout = MakeLayout(Registry(), {});
  EXPECT_TRUE(layout.buckets.empty());
  EXPECT_TRUE(layout.spaces.empty());
}

TEST(Layout, OfEmptyParamsHasNoBuckets) {
  const Layout layout = MakeLayout(UnitsOf({{0, 0}, {0}}), {});
  EXPECT_TRUE(layout.buckets.empty());
  EXPECT_EQ(layout.data_bytes, 0u);
}

Registry RandomRegistry(std::mt19937& random) {
  constexpr weft_dtype_t kDtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT64};
  Registry registry;
  for (uint32_t units = random() % 12; units > 0; --units) {
    const int unit = Begin(registry);
    for (uint32_t params = random() % 7; params > 0; --params) {
      Add(registry, unit, random() % 5 == 0 ? 0 : random() % 700, kDtypes[random() % 4],
          random() % 4 == 0);
    }
    EXPECT_TRUE(registry.SealUnit(unit).ok());
  }
  return registry;
}

size_t BytesOf(const Registry& registry, int param) {
  const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
  return (spec.count + kCutElements - 1) / kCutElements * kCutElements * DtypeSize(spec.dtype);
}

// Marks the elements of `ranges` in their spaces; true if none was marked before.
bool MarkOnce(const std::vector<Range>& ranges, std::vector<std::vector<bool>>& marks) {
  bool once = true;
  for (const Range& range : ranges) {
    for (size_t i = range.begin; i < range.begin + range.count; ++i) {
      once = once && !marks[static_cast<size_t>(range.space)].at(i);
      marks[static_cast<size_t>(range.space)].at(i) = true;
    }
  }
  return once;
}

std::vector<Range> RangesOf(const Layout& layout, const Bucket& bucket) {
  std::vector<Range> ranges;
  for (const int extent : bucket.pack.extents)
    ranges.push_back(layout.extents[static_cast<size_t>(extent)].range);
  return ranges;
}

void CheckRangesCoverSpaces(const Layout& layout) {
  std::vector<std::vector<bool>> marks;
  for (const Space& space : layout.spaces)
    marks.emplace_back(space.count);
  for (const Bucket& bucket : layout.buckets)
    EXPECT_TRUE(MarkOnce(RangesOf(layout, bucket), marks));
  EXPECT_TRUE(MarkOnce(layout.frozen, marks));
  for (const std::vector<bool>& space : marks) {
    for (const bool mark : space)
      ASSERT_TRUE(mark);
  }
}

void CheckPlaces(const Registry& registry, const Layout& layout) {
  std::vector<std::vector<bool>> marks;
  for (const Space& space : layout.spaces)
    marks.emplace_back(space.count);
  for (size_t i = 0; i < registry.params().size(); ++i) {
    const ParamSpec& spec = registry.params()[i];
    const Place& place = layout.places[i];
    const Space& space = layout.spaces[static_cast<size_t>(place.space)];
    EXPECT_EQ(space.dtype, spec.dtype);
    EXPECT_EQ(space.frozen, spec.frozen);
    EXPECT_EQ(place.begin % kCutElements, 0u);
    EXPECT_TRUE(MarkOnce({{place.space, place.begin, spec.count}}, marks));
    EXPECT_EQ(place.bucket < 0, spec.frozen || spec.count == 0);
  }
}

void CheckBuckets(const Registry& registry, const Layout& layout, const BucketLimits& limits) {
  int next = static_cast<int>(registry.params().size());
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    size_t bytes = 0;
    for (const int param : bucket.params) {
      EXPECT_EQ(layout.places[static_cast<size_t>(param)].bucket, static_cast<int>(b));
      bytes += BytesOf(registry, param);
    }
    EXPECT_EQ(bucket.bytes, bytes);
    EXPECT_GT(bytes, 0u);
    const size_t limit = b == 0 ? limits.first_bucket_bytes : limits.bucket_bytes;
    if (bucket.params.size() > 1) {
      EXPECT_LE(bytes, limit);
    }
    EXPECT_LT(bucket.params.back(), next) << "buckets go from the last param to the first";
    next = bucket.params.front();
  }
}

TEST(Layout, CoversEveryElementOnceWithinLimits) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Registry registry = RandomRegistry(random);
    const BucketLimits limits{.bucket_bytes = 1 + random() % 16000,
                              .first_bucket_bytes = 1 + random() % 8000};
    const Layout layout = MakeLayout(registry, limits);
    CheckPlaces(registry, layout);
    CheckRangesCoverSpaces(layout);
    CheckBuckets(registry, layout, limits);
  }
}

TEST(Layout, CountsItsPadding) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Registry registry = RandomRegistry(random);
    const Layout layout = MakeLayout(registry, {});
    size_t data = 0;
    size_t grads = 0;
    for (const ParamSpec& spec : registry.params()) {
      data += spec.count * DtypeSize(spec.dtype);
      if (!spec.frozen) grads += spec.count * DtypeSize(spec.dtype);
    }
    EXPECT_EQ(layout.data_bytes, data + layout.data_padding_bytes);
    EXPECT_EQ(layout.reduced_bytes, grads + layout.grad_padding_bytes);
  }
}

TEST(Layout, KeepsEachUnitOneIntervalOfItsSpaces) {
  std::mt19937 random(3);
  const Registry registry = RandomRegistry(random);
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 4000, .first_bucket_bytes = 1000});
  std::vector<std::vector<int>> owner;  // unit of each padded element, by space
  for (const Space& space : layout.spaces)
    owner.emplace_back(space.count, -1);
  for (size_t i = 0; i < registry.params().size(); ++i) {
    const Place& place = layout.places[i];
    for (size_t e = 0; e < registry.params()[i].count; ++e) {
      owner[static_cast<size_t>(place.space)][place.begin + e] = registry.params()[i].unit;
    }
  }
  for (const std::vector<int>& space : owner) {
    int last = -1;
    for (const int unit : space) {
      if (unit < 0) continue;  // padding
      EXPECT_GE(unit, last);
      last = unit;
    }
  }
}

// Units of random presets and cuts, with params of two dimensions.
Registry RandomPlacements(std::mt19937& random) {
  constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,
                                              WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                              WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION};
  Registry registry;
  for (uint32_t units = random() % 8; units > 0; --units) {
    Placement placement = PlacementOf(kPresets[random() % std::size(kPresets)]);
    placement.cut = static_cast<CutRule>(random() % 3);
    placement.cut_rows = 1 + random() % 3;
    const std::string name = "u" + std::to_string(registry.units().size());
    const int unit = *registry.BeginUnit(name, placement);
    for (uint32_t params = random() % 5; params > 0; --params) {
      const int64_t shape[] = {static_cast<int64_t>(random() % 40),
                               static_cast<int64_t>(1 + random() % 200)};
      const std::string param = "p" + std::to_string(registry.params().size());
      EXPECT_TRUE(registry
                      .AddParam(unit, param, shape, static_cast<int>(random() % 3),
                                random() % 2 == 0 ? WEFT_FLOAT32 : WEFT_BFLOAT16,
                                random() % 4 == 0 ? WEFT_SHARD_PARAM_FROZEN : 0)
                      .ok());
    }
    EXPECT_TRUE(registry.SealUnit(unit).ok());
  }
  return registry;
}

// Own parts of a space lie one behind the other, in its order, and fill what the rank has.
void CheckOwnParts(const Layout& layout) {
  for (size_t space = 0; space < layout.spaces.size(); ++space) {
    std::vector<const Extent*> extents;
    for (const Extent& extent : layout.extents)
      if (extent.range.space == static_cast<int>(space)) extents.push_back(&extent);
    std::sort(extents.begin(), extents.end(),
              [](const Extent* a, const Extent* b) { return a->range.begin < b->range.begin; });
    size_t next = 0;
    for (const Extent* const extent : extents) {
      EXPECT_EQ(extent->own_begin, next);
      next += layout.OwnCount(*extent);
    }
    EXPECT_EQ(layout.spaces[space].own_count, next);
  }
}

void CheckCuts(const Registry& registry, const Layout& layout, int ranks) {
  for (const Extent& extent : layout.extents) {
    const Placement& placement = layout.SpaceOf(extent).placement;
    ASSERT_EQ(extent.cuts.size(), static_cast<size_t>(ranks) + 1);
    EXPECT_EQ(extent.cuts.front(), 0u);
    EXPECT_EQ(extent.cuts.back(), extent.range.count);
    EXPECT_TRUE(std::is_sorted(extent.cuts.begin(), extent.cuts.end()));
    for (const size_t cut : extent.cuts) {
      EXPECT_EQ(cut % kCutElements, 0u);
      const size_t at = extent.range.begin + cut;
      for (size_t p = 0; p < registry.params().size(); ++p) {
        const ParamSpec& spec = registry.params()[p];
        const Place& place = layout.places[p];
        const bool inside =
            place.space == extent.range.space && place.begin < at && at < place.begin + spec.count;
        if (!inside || placement.cut == CutRule::kElements) continue;
        EXPECT_NE(placement.cut, CutRule::kParams) << "a param is parted";
        const size_t row = spec.count / static_cast<size_t>(spec.shape[0]);
        EXPECT_EQ((at - place.begin) % (row * placement.cut_rows), 0u) << "rows are parted";
      }
    }
  }
}

void CheckPacks(const Registry& registry, const Layout& layout) {
  for (const Bucket& bucket : layout.buckets) {
    ASSERT_FALSE(bucket.units.empty());
    const auto first = static_cast<size_t>(bucket.units[0]);
    for (const int unit : bucket.units) {
      EXPECT_EQ(registry.units()[static_cast<size_t>(unit)].placement,
                registry.units()[first].placement);
    }
    if (registry.units()[first].placement.params_sharded) {
      EXPECT_EQ(bucket.units.size(), 1u);
    }
  }
  for (size_t u = 0; u < registry.units().size(); ++u) {
    const Pack& pack = layout.units[u];
    const UnitSpec& unit = registry.units()[u];
    if (!unit.placement.params_sharded) {
      EXPECT_EQ(pack.bytes, 0u);
      continue;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < pack.extents.size(); ++i) {
      const Extent& extent = layout.extents[static_cast<size_t>(pack.extents[i])];
      EXPECT_EQ(pack.offsets[i], bytes);
      bytes += extent.range.count * DtypeSize(layout.SpaceOf(extent).dtype);
    }
    EXPECT_EQ(pack.bytes, bytes);
    for (int p = unit.first_param; p < unit.first_param + unit.param_count; ++p) {
      if (registry.params()[static_cast<size_t>(p)].count == 0) continue;
      const int extent = layout.places[static_cast<size_t>(p)].extent;
      EXPECT_NE(std::find(pack.extents.begin(), pack.extents.end(), extent), pack.extents.end())
          << "param " << p << " is not gathered";
    }
  }
}

TEST(Layout, CutsItsExtentsTheSameOnAllRanks) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Registry registry = RandomPlacements(random);
    const BucketLimits limits{.bucket_bytes = 1 + random() % 16000,
                              .first_bucket_bytes = 1 + random() % 8000};
    const int ranks = 1 + static_cast<int>(random() % 9);
    const Layout first = MakeLayout(registry, limits, {.rank = 0, .size = ranks});
    CheckCuts(registry, first, ranks);
    CheckPacks(registry, first);
    std::vector<size_t> owned(first.spaces.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Layout layout = MakeLayout(registry, limits, {.rank = rank, .size = ranks});
      CheckOwnParts(layout);
      ASSERT_EQ(layout.extents.size(), first.extents.size());
      for (size_t e = 0; e < layout.extents.size(); ++e) {
        EXPECT_EQ(layout.extents[e].cuts, first.extents[e].cuts);
        EXPECT_EQ(layout.extents[e].range.begin, first.extents[e].range.begin);
        EXPECT_EQ(layout.extents[e].range.space, first.extents[e].range.space);
      }
      for (size_t s = 0; s < owned.size(); ++s)
        owned[s] += layout.spaces[s].own_count;
    }
    // Together they own everything that is in an extent: all but what is frozen and rests whole.
    for (size_t s = 0; s < owned.size(); ++s) {
      const Space& space = first.spaces[s];
      EXPECT_EQ(owned[s], space.frozen && !space.placement.params_sharded ? 0 : space.count);
    }
  }
}

TEST(Layout, MakesAUnitWhoseParamsRestCutOneBucket) {
  Registry registry;
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_ZERO2}) {
    const std::string name = "u" + std::to_string(registry.units().size());
    const int unit = *registry.BeginUnit(name, PlacementOf(preset));
    for (int i = 0; i < 4; ++i)
      Add(registry, unit, 128);
    ASSERT_TRUE(registry.SealUnit(unit).ok());
  }
  const Layout layout = MakeLayout(registry, {.bucket_bytes = 1024, .first_bucket_bytes = 512});
  EXPECT_EQ(Members(layout), (Lists{{11}, {9, 10}, {8}, {4, 5, 6, 7}, {2, 3}, {0, 1}}));
}

}  // namespace
}  // namespace weft::layout_test
