#include "shard/checks/agreement.h"

#include <random>
#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "shard/checks/rank_list.h"
#include "tests/shard/ranks.h"

namespace weft::agreement_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Digest> Digests(const std::vector<int>& values) {
  std::vector<Digest> digests;
  for (const int value : values)
    digests.push_back(DigestOf(&value, sizeof(value)));
  return digests;
}

struct Answers {
  std::vector<absl::Status> statuses;
  std::vector<std::optional<Difference>> differences;
};

Answers Compare(GroupKind kind, const std::vector<std::vector<int>>& lists) {
  Answers answers;
  answers.differences.resize(lists.size());
  answers.statuses = RunRanks(kind, static_cast<int>(lists.size()),
                              [&](int rank, std::shared_ptr<ProcessGroup> group) {
                                const auto index = static_cast<size_t>(rank);
                                auto found = FirstDifference(*group, Digests(lists[index]), 0);
                                if (found.ok()) answers.differences[index] = *std::move(found);
                                return found.status();
                              });
  return answers;
}

void ExpectDifference(const std::vector<std::vector<int>>& lists, size_t index,
                      const std::vector<int>& ranks) {
  for (const GroupKind kind : kGroupKinds) {
    SCOPED_TRACE(GroupKindName(kind));
    const Answers answers = Compare(kind, lists);
    ExpectAllOk(answers.statuses);
    for (const auto& difference : answers.differences) {
      ASSERT_TRUE(difference.has_value());
      EXPECT_EQ(difference->index, index);
      EXPECT_EQ(difference->ranks, ranks);
    }
  }
}

TEST(Agreement, FindsNothingInEqualLists) {
  for (const int ranks : kRankSet) {
    for (const std::vector<int>& list : {std::vector<int>{}, {1}, {1, 2, 3, 4, 5}}) {
      const Answers answers = Compare(
          GroupKind::kLocal, std::vector<std::vector<int>>(static_cast<size_t>(ranks), list));
      ExpectAllOk(answers.statuses);
      for (const auto& difference : answers.differences)
        EXPECT_FALSE(difference.has_value());
    }
  }
}

TEST(Agreement, FindsTheFirstDifference) {
  ExpectDifference({{1, 2, 3}, {1, 9, 8}, {1, 2, 3}}, 1, {1});
  ExpectDifference({{1, 2, 3}, {1, 2, 4}, {7, 2, 3}}, 0, {2});
}

TEST(Agreement, NamesTheOddRanksWhoeverTheyAre) {
  ExpectDifference({{9, 2}, {1, 2}, {1, 2}}, 0, {0});
  ExpectDifference({{9}, {8}, {1}, {1}}, 0, {0, 1});
  ExpectDifference({{1}, {2}, {1}, {2}, {1}}, 0, {1, 3});
}

TEST(Agreement, NamesAllSidesWithoutAMajority) {
  for (const auto& [lists, text] :
       std::vector<std::pair<std::vector<std::vector<int>>, std::string>>{
           {{{1}, {2}}, "rank 0 and rank 1 have different values"},
           {{{1}, {2}, {1}, {2}}, "ranks 0, 2 and ranks 1, 3 have different values"},
           {{{1}, {2}, {2}, {1}, {3}}, "ranks 0, 3, ranks 1, 2 and rank 4 have different values"},
           {{{1}, {2}, {3}, {4}, {5}, {6}},
            "rank 0, rank 1, rank 2, rank 3 and 2 other ranks have different values"}}) {
    const Answers answers = Compare(GroupKind::kReference, lists);
    ExpectAllOk(answers.statuses);
    for (const auto& difference : answers.differences) {
      ASSERT_TRUE(difference.has_value());
      EXPECT_FALSE(difference->majority);
      EXPECT_EQ(WhoDiffers(*difference), text);
    }
  }
}

TEST(Agreement, SaysWhatTheOutliersDifferFrom) {
  const Answers answers = Compare(GroupKind::kReference, {{2}, {1}, {1}, {3}, {1}});
  ASSERT_TRUE(answers.differences[4].has_value());
  EXPECT_EQ(WhoDiffers(*answers.differences[4]), "ranks 0, 3 have other values than ranks 1, 2, 4");
}

// Ranks 0, 2, 4 have one list, ranks 1, 3, 5 another: that is no difference, but an outlier within one of them is.
TEST(Agreement, ComparesRanksAStrideApart) {
  const std::vector<std::vector<int>> equal = {{1, 2}, {5, 6}, {1, 2}, {5, 6}, {1, 2}, {5, 6}};
  std::vector<std::vector<int>> with_outlier = equal;
  with_outlier[1][1] = 7;
  for (const GroupKind kind : kGroupKinds) {
    ExpectAllOk(
        RunRanks(kind, 6, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          const auto index = static_cast<size_t>(rank);
          WEFT_ASSIGN_OR_RETURN(const auto none,
                                FirstDifference(*group, Digests(equal[index]), 0, 2));
          EXPECT_FALSE(none.has_value());
          WEFT_ASSIGN_OR_RETURN(const auto found,
                                FirstDifference(*group, Digests(with_outlier[index]), 0, 2));
          EXPECT_TRUE(found.has_value());
          if (!found.has_value()) return absl::OkStatus();
          EXPECT_EQ(found->index, 1u);
          EXPECT_EQ(WhoDiffers(*found), "rank 1 has other values than ranks 3, 5");
          return absl::OkStatus();
        }));
  }
}

TEST(Agreement, FindsTheEndOfAShorterList) {
  ExpectDifference({{1, 2, 3}, {1, 2}}, 2, {1});
  ExpectDifference({{}, {1, 2}, {}}, 0, {1});
  ExpectDifference({{1}, {1, 1}}, 1, {1});
}

TEST(Agreement, FindsAnyPlaceInAnyLength) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<int> list(1 + random() % 300);
    for (int& value : list)
      value = static_cast<int>(random() % 3);
    const size_t place = random() % list.size();
    std::vector<int> other = list;
    other[place] += 1;
    for (size_t i = place + 1; i < other.size(); ++i)
      other[i] = static_cast<int>(random() % 3);
    const Answers answers = Compare(GroupKind::kReference, {list, other, list});
    ExpectAllOk(answers.statuses);
    for (const auto& difference : answers.differences) {
      ASSERT_TRUE(difference.has_value());
      EXPECT_EQ(difference->index, place);
      EXPECT_THAT(difference->ranks, ElementsAre(1));
    }
  }
}

TEST(Agreement, GathersTextsOfAnyLength) {
  const std::vector<std::string> own = {"", "short", std::string(5000, 'x')};
  ExpectAllOk(RunRanks(GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) {
    const auto texts = GatherText(*group, own[static_cast<size_t>(rank)], 0);
    if (!texts.ok()) return texts.status();
    EXPECT_THAT(*texts, ElementsAre("", "short", std::string(4096, 'x')));
    return absl::OkStatus();
  }));
}

TEST(Agreement, ReturnsTheGroupsFailure) {
  const std::vector<absl::Status> statuses =
      RunRanks(GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) {
        if (rank == 1) {
          group->Abort("no more");
          return absl::OkStatus();
        }
        return FirstDifference(*group, {}, 0).status();
      });
  EXPECT_EQ(ResultOf(statuses[0]), WEFT_ABORTED);
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("no more"));
}

TEST(Agreement, ListsRanks) {
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({1, 3}), "ranks 1, 3");
  EXPECT_EQ(RankList({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

}  // namespace
}  // namespace weft::agreement_test
