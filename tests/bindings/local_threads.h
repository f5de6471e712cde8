// Ranks as threads, for tests of the C interface.
#pragma once

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

// Runs body(rank) for every rank, each on a thread of its own.
template <typename Body>
void OnThreads(int size, const Body& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back(body, rank);
  for (std::thread& thread : threads)
    thread.join();
}

// A config whose deadlines end a test that would hang.
inline weft_group_config_t ConfigNamed(const char* name, int64_t timeout_ns = 60'000'000'000) {
  weft_group_config_t config = {};
  config.struct_size = sizeof(config);
  config.name = name;
  config.timeout_ns = timeout_ns;
  return config;
}

// Runs body(rank, group) for every rank of a group that is made for it, each on a thread of its own.
template <typename Body>
void OnLocalRanks(int size, const Body& body) {
  const weft_group_config_t config = ConfigNamed("local");
  std::vector<weft_group_t> groups(static_cast<size_t>(size));
  ASSERT_EQ(weft_group_create_local(size, &config, groups.data()), WEFT_SUCCESS)
      << weft_last_error();
  OnThreads(size, [&](int rank) {
    weft_group_t const group = groups[static_cast<size_t>(rank)];
    body(rank, group);
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  });
}

// One rank's part of a check that the group is what was asked for and sums; frees the group.
inline void ExpectSumsAndDestroy(weft_group_t group, int size, int rank) {
  int found = -1;
  EXPECT_EQ(weft_group_rank(group, &found), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(found, rank);
  EXPECT_EQ(weft_group_size(group, &found), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(found, size);
  std::vector<int64_t> x(1000, rank + 1);
  EXPECT_EQ(
      weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT64, WEFT_SUM, group, nullptr, nullptr),
      WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(x, std::vector<int64_t>(1000, size * (size + 1) / 2));
  EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
}

}  // namespace weft::test
