#include "topology/cpu_set.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/status.h"
#include "tests/support/leak_check.h"

namespace weft {
namespace {

CpuSet SetOf(const std::set<int>& cpus) {
  CpuSet set;
  for (const int cpu : cpus)
    set.Add(cpu);
  return set;
}

std::set<int> Drawn(std::mt19937_64& random) {
  std::set<int> cpus;
  const int most = 1 << (1 + random() % 13);
  for (size_t left = random() % 40; left > 0; --left)
    cpus.insert(static_cast<int>(random() % static_cast<unsigned>(most)));
  return cpus;
}

TEST(CpuSet, AgreesWithASetOfNumbers) {
  const unsigned long long seed = test::TestSeed(20261125);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::set<int> a = Drawn(random);
    const std::set<int> b = Drawn(random);
    std::set<int> both;
    std::set<int> either = a;
    std::set<int> rest;
    either.insert(b.begin(), b.end());
    for (const int cpu : a)
      (b.count(cpu) != 0 ? both : rest).insert(cpu);
    const CpuSet first = SetOf(a);
    const CpuSet second = SetOf(b);
    EXPECT_EQ(first & second, SetOf(both));
    EXPECT_EQ(first | second, SetOf(either));
    EXPECT_EQ(first - second, SetOf(rest));
    EXPECT_EQ(first.Contains(second), both.size() == b.size());
    EXPECT_EQ(first.Intersects(second), !both.empty());
    EXPECT_EQ(first.count(), static_cast<int>(a.size()));
    EXPECT_EQ(first.empty(), a.empty());
    EXPECT_EQ(first.first(), a.empty() ? -1 : *a.begin());
    EXPECT_EQ(first.Members(), std::vector<int>(a.begin(), a.end()));
    const absl::StatusOr<CpuSet> read = CpuSet::FromList(first.ToList());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, first);
  }
}

TEST(CpuSet, WritesRanges) {
  EXPECT_EQ(SetOf({}).ToList(), "");
  EXPECT_EQ(SetOf({0}).ToList(), "0");
  EXPECT_EQ(SetOf({0, 1, 2, 5, 63, 64, 8191}).ToList(), "0-2,5,63-64,8191");
}

TEST(CpuSet, HasNoCpuThatWasNotAdded) {
  const CpuSet set = SetOf({3});
  EXPECT_TRUE(set.Has(3));
  for (const int cpu : {-1, 0, 2, 4, 67, 8191, 1 << 30})
    EXPECT_FALSE(set.Has(cpu)) << cpu;
}

TEST(CpuSet, WhatIsNoListIsRefused) {
  for (const std::string text : {"a",   "-",  "1-", "-1",    "0-",   "3-1",     "1,1",
                                 "2,1", "1,", ",",  "1,,2",  "8192", "0-8192",  "99999999999",
                                 "+1",  " 1", "1 ", "0-1-2", "0x1",  "1-3:2/4", "0-3,2"}) {
    const absl::StatusOr<CpuSet> set = CpuSet::FromList(text);
    EXPECT_EQ(ResultOf(set.status()), WEFT_CORRUPT) << text;
  }
  const absl::Status status = CpuSet::FromList(std::string(100'000, '1')).status();
  EXPECT_LT(status.message().size(), 200u);
}

TEST(CpuSet, OfThisThreadIsItsAffinity) {
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  const CpuSet set = CpuSet::OfThisThread();
  EXPECT_EQ(set.count(), CPU_COUNT(&cpus));
  for (const int cpu : set.Members())
    EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(cpu), &cpus)) << cpu;
}

}  // namespace
}  // namespace weft
