#include "shard/layout.h"

#include <random>
#include <string>

#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

void Add(Registry& registry, int unit, int64_t count, weft_dtype_t dtype = WEFT_FLOAT32,
         bool frozen = false) {
  const std::string name = "p" + std::to_string(registry.params().size());
  ASSERT_TRUE(registry.AddParam(unit, name, &count, 1, dtype, frozen).ok());
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

}  // namespace
}  // namespace weft
