// The C++ wrapper: ownership, exceptions, the first collectives in both forms. Compiled as C++17.
#include <memory_resource>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.hpp"

#include "tests/install/local_ranks.h"

namespace {

using weft_test::OnRanks;

TEST(Wrapper, BlockingCollectivesGiveTheirResults) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    EXPECT_EQ(group.Size(), 3);
    std::vector<float> x = {1.0f, static_cast<float>(rank)};
    group.AllReduce(x.data(), x.data(), x.size(), WEFT_SUM);
    EXPECT_EQ(x, (std::vector<float>{3.0f, 3.0f}));

    const std::vector<int> mine = {rank};
    std::vector<int> all(3, -1);
    group.AllGather(mine.data(), all.data(), mine.size());
    EXPECT_EQ(all, (std::vector<int>{0, 1, 2}));

    double root_value = rank == 1 ? 2.5 : 0.0;
    group.Broadcast(&root_value, &root_value, 1, 1);
    EXPECT_EQ(root_value, 2.5);

    int64_t part = 0;
    const std::vector<int64_t> parts = {10, 20, 30};
    group.ReduceScatter(parts.data(), &part, 1, WEFT_SUM);
    EXPECT_EQ(part, 30 * (rank + 1));

    int before = -1;
    group.Scan(mine.data(), &all[0], 1, WEFT_SUM);
    EXPECT_EQ(all[0], rank * (rank + 1) / 2);
    group.Exscan(mine.data(), &before, 1, WEFT_SUM);
    EXPECT_EQ(before, rank == 0 ? -1 : rank * (rank - 1) / 2);

    int32_t largest = -1;
    const int32_t value = rank;
    group.Reduce(&value, &largest, 1, WEFT_MAX, 0);
    EXPECT_EQ(largest, rank == 0 ? 2 : -1);
    group.Barrier();
  });
}

TEST(Wrapper, StartedCollectivesGiveAWork) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const weft::Memory memory(64 * sizeof(float));
    auto* x = memory.As<float>();
    for (int i = 0; i < 64; ++i)
      x[i] = static_cast<float>(rank + i);
    const weft::Work work = group.Start().AllReduce(x, x, 64, WEFT_SUM);
    work.Wait();
    EXPECT_TRUE(work.Test());
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(x[i], static_cast<float>(2 * i + 1));
  });
}

TEST(Wrapper, SplitGivesEachColourItsGroup) {
  OnRanks(4, [](const weft::Group& group, int rank) {
    const weft::Group half = group.Split(rank == 3 ? WEFT_COLOR_NONE : rank % 2, -rank);
    EXPECT_EQ(static_cast<bool>(half), rank != 3);
    if (!half) return;
    EXPECT_EQ(half.Size(), rank == 1 ? 1 : 2);
    EXPECT_EQ(half.Rank(), rank == 0 ? 1 : 0);
    half.Barrier();
  });
}

TEST(Wrapper, FailuresThrowWithSentenceAndCode) {
  OnRanks(1, [](const weft::Group& group, int) {
    float x = 0;
    try {
      group.AllReduce(&x, &x, 1, static_cast<weft_op_t>(77));
      FAIL() << "an unknown operation was accepted";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.what()), "");
    }
  });
  EXPECT_THROW(weft::Group::Local(0), weft::Error);
}

TEST(Wrapper, NullPointersGoWhereCTakesThem) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    float x = rank == 0 ? 3.0f : 0.0f;
    float sum = 0;
    group.Broadcast(rank == 0 ? &x : nullptr, &x, 1, 0);
    group.Reduce(&x, rank == 1 ? &sum : nullptr, 1, WEFT_SUM, 1);
    EXPECT_EQ(sum, rank == 1 ? 6.0f : 0.0f);
  });
}

TEST(Wrapper, SettingsAnswer) {
  EXPECT_EQ(weft::Version(),
            WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH);
  bool found = false;
  for (const weft_option_info_t& option : weft::Options())
    found = found || std::string(option.environment) == "WEFT_TIMEOUT_S";
  EXPECT_TRUE(found);
  weft::SetLogLevel(WEFT_LOG_WARN);
  weft::SetLogCallback([](weft_log_level_t, const char*, void*) {});
  weft::SetLogCallback(nullptr);
  EXPECT_THROW(weft::SetLogLevel(static_cast<weft_log_level_t>(9)), weft::Error);
}

TEST(Wrapper, HandlesMoveAndFreeOnce) {
  std::vector<weft::Group> groups = weft::Group::Local(1);
  weft::Group moved = std::move(groups[0]);
  EXPECT_TRUE(moved);
  EXPECT_EQ(moved.Size(), 1);
  moved = weft::Group();
  EXPECT_FALSE(moved);
  weft::Memory memory(1);
  const weft::Memory other = std::move(memory);
  EXPECT_NE(other.data(), nullptr);
}

TEST(Wrapper, ElementTypesFollowTheCppType) {
  static_assert(weft::DtypeOf<float>() == WEFT_FLOAT32);
  static_assert(weft::DtypeOf<const double>() == WEFT_FLOAT64);
  static_assert(weft::DtypeOf<uint8_t>() == WEFT_UINT8);
  static_assert(weft::DtypeOf<long>() == WEFT_INT64);
  static_assert(weft::DtypeOf<unsigned>() == WEFT_UINT32);
  static_assert(!std::is_copy_constructible_v<weft::Group>);
}

}  // namespace
