// Groups of listed ranks: order, who gets none, lists that differ.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::from_ranks_test {
namespace {

class FromRanks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    groups_.resize(static_cast<size_t>(size()));
    const weft_group_config_t config = ConfigNamed("parent");
    ASSERT_EQ(weft_group_create_local(size(), &config, groups_.data()), WEFT_SUCCESS)
        << weft_last_error();
  }

  void TearDown() override {
    OnThreads(size(), [&](int rank) { ExpectSumsAndDestroy(of(rank), size(), rank); });
  }

  int size() const { return GetParam(); }

  weft_group_t of(int rank) const { return groups_[static_cast<size_t>(rank)]; }

  std::vector<weft_group_t> groups_;
};

TEST_P(FromRanks, RanksAreThePlacesInTheList) {
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    std::vector<int> list(static_cast<size_t>(size()));
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random);
    list.resize(1 + random() % list.size());
    OnThreads(size(), [&](int rank) {
      weft_group_t part = reinterpret_cast<weft_group_t>(&list);
      ASSERT_EQ(weft_group_create_from_ranks(of(rank), list.data(), static_cast<int>(list.size()),
                                             nullptr, &part),
                WEFT_SUCCESS)
          << weft_last_error();
      const auto place = std::find(list.begin(), list.end(), rank);
      if (place == list.end()) {
        EXPECT_EQ(part, nullptr);
      } else {
        ExpectSumsAndDestroy(part, static_cast<int>(list.size()),
                             static_cast<int>(place - list.begin()));
      }
    });
  }
}

TEST_P(FromRanks, AnotherListIsNamedAndTheParentGoesOn) {
  if (size() < 2) return;
  const int outlier = size() - 1;
  OnThreads(size(), [&](int rank) {
    const int right[] = {0, 1};
    const int wrong[] = {1, 0};
    weft_group_t part = nullptr;
    const weft_result_t result =
        weft_group_create_from_ranks(of(rank), rank == outlier ? wrong : right, 2, nullptr, &part);
    EXPECT_EQ(result, WEFT_MISMATCH);
    EXPECT_EQ(part, nullptr);
    EXPECT_NE(std::string(weft_last_error()).find("rank " + std::to_string(outlier) + " passed"),
              std::string::npos)
        << weft_last_error();
    weft_error_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
    EXPECT_EQ(info.rank, outlier);
  });
}

TEST_P(FromRanks, AShorterListIsAnotherList) {
  if (size() < 2) return;
  OnThreads(size(), [&](int rank) {
    const int list[] = {0, 1};
    weft_group_t part = nullptr;
    EXPECT_EQ(weft_group_create_from_ranks(of(rank), list, rank == 1 ? 1 : 2, nullptr, &part),
              WEFT_MISMATCH);
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, FromRanks, testing::Values(1, 2, 3, 4, 5, 7, 8));

}  // namespace
}  // namespace weft::test::from_ranks_test
