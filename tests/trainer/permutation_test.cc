#include "trainer/permutation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/random.h"

namespace weft::trainer::permutation_test {
namespace {

std::vector<uint64_t> AllOf(const Permutation& order) {
  std::vector<uint64_t> numbers;
  for (uint64_t place = 0; place < order.count(); place++)
    numbers.push_back(order.At(place));
  return numbers;
}

// Sizes where digits are full, nearly full and just begun.
std::vector<uint64_t> Counts() {
  std::vector<uint64_t> counts = {1, 2, 3, 4, 5, 6, 7, 10, 97, 641, 1000, 7919, 65537};
  for (const uint64_t power : {8, 16, 64, 256, 1024, 4096, 65536}) {
    for (const uint64_t count : {power - 1, power, power + 1})
      counts.push_back(count);
  }
  for (const uint64_t root : {3, 10, 31, 101}) {
    for (const uint64_t count : {root * root - 1, root * root, root * root + 1, root * root + root})
      counts.push_back(count);
  }
  return counts;
}

TEST(Permutation, HasEachNumberOnceAndKnowsTheWayBack) {
  for (const uint64_t count : Counts()) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, Mix(count)}) {
      const Permutation order(count, key);
      const std::vector<uint64_t> numbers = AllOf(order);
      std::vector<bool> seen(count, false);
      for (uint64_t place = 0; place < count; place++) {
        ASSERT_LT(numbers[place], count);
        ASSERT_FALSE(seen[numbers[place]]) << count << " numbers, key " << key;
        seen[numbers[place]] = true;
        ASSERT_EQ(order.PlaceOf(numbers[place]), place) << count << " numbers, key " << key;
      }
    }
  }
}

TEST(Permutation, MoreNumbersThan32BitsHold) {
  constexpr uint64_t kMany = uint64_t{1} << 32;
  for (const uint64_t count :
       {kMany - 1, kMany, kMany + 1, uint64_t{1'000'000'000'039}, (kMany << 29) + 12345,
        Permutation::kCountMax - 1, Permutation::kCountMax}) {
    const Permutation order(count, 7);
    std::set<uint64_t> numbers;
    constexpr uint64_t kLooked = 4000;
    for (uint64_t i = 0; i < kLooked; i++) {
      // The first places, the last ones, and some anywhere.
      for (const uint64_t place : {i, count - 1 - i, kLooked + BitsAt(3, i) % (count / 2)}) {
        const uint64_t number = order.At(place);
        ASSERT_LT(number, count);
        ASSERT_EQ(order.PlaceOf(number), place) << count;
        ASSERT_EQ(order.At(order.PlaceOf(place)), place) << count;
        numbers.insert(number);
      }
    }
    // Places that were drawn twice are few.
    EXPECT_GE(numbers.size(), 3 * kLooked - 50) << count;
  }
}

TEST(Permutation, EachKeyHasAnOrderOfItsOwn) {
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t key = 0; key < 200; key++)
    orders.insert(AllOf(Permutation(50, key)));
  EXPECT_EQ(orders.size(), 200u);
}

// How far counts are from being all alike, in deviations of the sum of squares; a good generator is
// within 8 except once in some 10^10 times.
double Unevenness(const std::vector<double>& counts) {
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / double(counts.size());
  double sum = 0;
  for (const double count : counts)
    sum += (count - mean) * (count - mean) / mean;
  const double freedom = double(counts.size() - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(Permutation, AllOrdersOfAFewNumbersAreAlike) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const size_t count : {2, 3, 4, 5, 6}) {
    std::vector<uint64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::map<std::vector<uint64_t>, double> times;
    do {
      times[order] = 0;
    } while (std::next_permutation(order.begin(), order.end()));
    for (uint64_t i = 0; i < 10'000; i++)
      times.at(AllOf(Permutation(count, BitsAt(seed, i))))++;
    std::vector<double> counts;
    counts.reserve(times.size());
    for (const auto& [numbers, n] : times)
      counts.push_back(n);
    EXPECT_LT(Unevenness(counts), 8) << count << " numbers";
  }
}

// Where a number goes, and how far apart neighbours come to be, is anything.
TEST(Permutation, NothingOfAPlaceIsLeftInItsNumber) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  constexpr size_t kParts = 64;
  for (const uint64_t count : {uint64_t{6400}, uint64_t{640'000'007}, uint64_t{1} << 50}) {
    std::vector<double> parts(kParts, 0), distances(kParts, 0), by_key(kParts, 0);
    const auto part_of = [&](uint64_t number) {
      return size_t((unsigned __int128)(number)*kParts / count);
    };
    const Permutation one(count, seed);
    for (uint64_t i = 0; i < 6000; i++) {
      const uint64_t number = one.At(i), next = one.At(i + 1);
      // Of 6400 numbers nearly all are looked at, so these parts are more alike than by chance.
      parts[part_of(number)]++;
      distances[part_of((next + count - number) % count)]++;
      by_key[part_of(Permutation(count, BitsAt(seed, i)).At(17))]++;
    }
    EXPECT_LT(Unevenness(parts), 8) << count;
    EXPECT_LT(Unevenness(distances), 8) << count;
    EXPECT_LT(Unevenness(by_key), 8) << count;
  }
}

}  // namespace
}  // namespace weft::trainer::permutation_test
