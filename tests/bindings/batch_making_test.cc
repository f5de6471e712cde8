// Groups that are noted in a batch and made when it ends: one thread is several of their ranks.
#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "weft/weft.hpp"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::batch_making_test {
namespace {

using testing::HasSubstr;

constexpr int kSize = 5;
constexpr int64_t kInVainNs = 20'000'000'000;  // longer than anything here takes

weft_unique_id_t NewId() {
  weft_unique_id_t id = {};
  EXPECT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
  return id;
}

// One thread calls for all.
void ExpectSums(const std::vector<weft_group_t>& groups, int64_t expected) {
  std::vector<int64_t> x(groups.size(), 1);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(weft_all_reduce(&x[i], &x[i], 1, WEFT_INT64, WEFT_SUM, groups[i], nullptr, nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
  }
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(x, std::vector<int64_t>(groups.size(), expected));
}

// An id that the first of several forked processes makes.
class SharedId {
 public:
  SharedId()
      : place_(static_cast<Place*>(mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  SharedId(const SharedId&) = delete;
  SharedId& operator=(const SharedId&) = delete;

  ~SharedId() { munmap(place_, sizeof(Place)); }

  weft_unique_id_t OfFirst(int process) const {
    if (process == 0) {
      place_->id = NewId();
      place_->there = true;
    }
    for (int tries = 0; !place_->there && tries < 30'000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return place_->id;
  }

 private:
  struct Place {
    weft_unique_id_t id;
    std::atomic<bool> there;
  };

  Place* const place_;
};

// Two processes of two ranks each: the ranks of both are in one group. The first test, since a forked process takes memory
// of threads that it has not for lost.
TEST(BatchMaking, RanksOfSeveralProcessesMeet) {
  SharedId shared;
  const std::vector<RankEnd> ends = RunForkedRanks(2, 60, [&](int process) -> std::string {
    const weft_unique_id_t id = shared.OfFirst(process);
    weft_group_t groups[2] = {};
    try {
      Batch batch;
      for (int i = 0; i < 2; ++i)
        Batch::FromId(id, 4, 2 * process + i, &groups[i]);
      batch.End();
      const Group first(groups[0]);
      const Group second(groups[1]);
      float x[2] = {1, 1};
      Batch sums;
      first.AllReduce(&x[0], &x[0], 1, WEFT_SUM);
      second.AllReduce(&x[1], &x[1], 1, WEFT_SUM);
      sums.End();
      return x[0] == 4 && x[1] == 4 ? "" : "another sum";
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

TEST(BatchMaking, MakesAllRanksOfAThread) {
  const weft_unique_id_t id = NewId();
  std::vector<weft_group_t> groups(kSize);
  weft_group_t other = nullptr;
  const weft_unique_id_t other_id = NewId();
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (int rank = kSize - 1; rank >= 0; --rank) {
    EXPECT_EQ(weft_batch_group_create_from_id(&id, kSize, rank, nullptr,
                                              &groups[static_cast<size_t>(rank)]),
              WEFT_SUCCESS)
        << weft_last_error();
  }
  EXPECT_EQ(weft_batch_group_create_from_id(&other_id, 1, 0, nullptr, &other), WEFT_SUCCESS);
  EXPECT_EQ(groups, std::vector<weft_group_t>(kSize));
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  for (int rank = 0; rank < kSize; ++rank) {
    int found = -1;
    EXPECT_EQ(weft_group_rank(groups[static_cast<size_t>(rank)], &found), WEFT_SUCCESS);
    EXPECT_EQ(found, rank);
  }
  ExpectSums(groups, kSize);
  ExpectSums({other}, 1);

  // Two splits of each rank, in the same order: what the first says is not taken for the second.
  std::vector<weft_group_t> all(kSize);
  std::vector<weft_group_t> even(kSize);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (int rank = 0; rank < kSize; ++rank) {
    const auto place = static_cast<size_t>(rank);
    EXPECT_EQ(weft_batch_group_split(groups[place], 0, -rank, nullptr, &all[place]), WEFT_SUCCESS);
    EXPECT_EQ(weft_batch_group_split(groups[place], rank % 2 == 0 ? 7 : WEFT_COLOR_NONE, 0, nullptr,
                                     &even[place]),
              WEFT_SUCCESS);
  }
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
  ExpectSums(all, kSize);
  ExpectSums({even[0], even[2], even[4]}, 3);
  EXPECT_EQ(even[1], nullptr);
  EXPECT_EQ(even[3], nullptr);
  for (const auto& list : {all, even, groups, std::vector<weft_group_t>{other}}) {
    for (weft_group_t group : list)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }
}

TEST(BatchMaking, OutsideOfABatchIsAtOnce) {
  const weft_unique_id_t id = NewId();
  weft_group_t group = nullptr;
  weft_group_t part = nullptr;
  ASSERT_EQ(weft_batch_group_create_from_id(&id, 1, 0, nullptr, &group), WEFT_SUCCESS)
      << weft_last_error();
  ASSERT_EQ(weft_batch_group_split(group, 0, 0, nullptr, &part), WEFT_SUCCESS) << weft_last_error();
  ExpectSums({group}, 1);
  ExpectSums({part}, 1);
  weft_group_destroy(part);
  weft_group_destroy(group);
}

// The same rank twice: everybody learns of it, nobody waits for its deadline, and no group is left.
TEST(BatchMaking, OneThatFailsEndsTheOthers) {
  const weft_unique_id_t id = NewId();
  const weft_unique_id_t lonely = NewId();
  weft_group_config_t config = ConfigNamed("twice");
  config.init_timeout_ns = kInVainNs;
  weft_group_t groups[4] = {};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(weft_batch_group_create_from_id(&id, 3, i == 2 ? 1 : i, &config, &groups[i]),
              WEFT_SUCCESS);
  }
  EXPECT_EQ(weft_batch_group_create_from_id(&lonely, 2, 0, &config, &groups[3]), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_INVALID_USAGE);
  EXPECT_THAT(weft_last_error(), HasSubstr("rank 1"));
  for (weft_group_t group : groups)
    EXPECT_EQ(group, nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(kInVainNs));
}

TEST(BatchMaking, IsInterruptedByTheCallersCheck) {
  const weft_unique_id_t id = NewId();
  weft_group_config_t config = ConfigNamed("interrupted");
  config.init_timeout_ns = kInVainNs;
  std::atomic<int> asked{0};
  const auto check = [](void* count) -> int {
    return static_cast<std::atomic<int>*>(count)->fetch_add(1) >= 3 ? 1 : 0;
  };
  ASSERT_EQ(weft_set_interrupt(check, &asked, 10'000'000), WEFT_SUCCESS);
  weft_group_t groups[2] = {};
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(weft_batch_group_create_from_id(&id, 3, rank, &config, &groups[rank]), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_INTERRUPTED) << weft_last_error();
  EXPECT_EQ(weft_set_interrupt(nullptr, nullptr, 0), WEFT_SUCCESS);
  EXPECT_EQ(groups[0], nullptr);
  EXPECT_EQ(groups[1], nullptr);
}

TEST(BatchMaking, WhatIsCancelledIsNotMade) {
  const weft_unique_id_t id = NewId();
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_group_create_from_id(&id, 2, 0, nullptr, &group), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS);
  EXPECT_EQ(group, nullptr);
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
}

}  // namespace
}  // namespace weft::test::batch_making_test
