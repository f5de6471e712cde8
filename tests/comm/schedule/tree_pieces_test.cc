// Tree pieces: that they are the largest subtrees of each island, that the tree over them is the canonical one,
// and how many there are for the ways in which jobs are launched.

#include "comm/schedule/tree_pieces.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/comm/kernels/reference.h"

namespace weft::tree_pieces_test {
namespace {

// The sum of ranks [first, first + count) as text, each vertex in brackets: "((0+1)+2)".
std::string SumText(int first, int count) {
  if (count == 1) return StrCat(first);
  int left = 1;
  while (left * 2 < count)
    left *= 2;
  return StrCat("(", SumText(first, left), "+", SumText(first + left, count - left), ")");
}

// What the pieces and merges sum, as text.
std::string TextOf(const TreePieces& tree) {
  std::vector<std::string> waiting;
  for (size_t i = 0; i < tree.pieces.size(); ++i) {
    std::string sum = SumText(tree.pieces[i].first_rank, tree.pieces[i].rank_count);
    for (int joins = tree.merges[i]; joins > 0; --joins) {
      EXPECT_FALSE(waiting.empty());
      sum = StrCat("(", waiting.back(), "+", sum, ")");
      waiting.pop_back();
    }
    waiting.push_back(sum);
  }
  EXPECT_EQ(waiting.size(), 1u);
  return waiting[0];
}

// The pieces by looking at every rank of every vertex.
void AppendPieces(const std::vector<int>& islands, int first, int count,
                  std::vector<TreePiece>& pieces) {
  const auto begin = islands.begin() + first;
  if (std::count(begin, begin + count, *begin) == count) {
    pieces.push_back({*begin, first, count});
    return;
  }
  int left = 1;
  while (left * 2 < count)
    left *= 2;
  AppendPieces(islands, first, left, pieces);
  AppendPieces(islands, first + left, count - left, pieces);
}

void ExpectMaximalPiecesOfTheTree(const std::vector<int>& islands) {
  const TreePieces tree = PiecesOf(islands);
  const int rank_count = static_cast<int>(islands.size());
  std::vector<TreePiece> expected;
  AppendPieces(islands, 0, rank_count, expected);
  ASSERT_EQ(tree.pieces, expected) << testing::PrintToString(islands);
  ASSERT_EQ(tree.merges.size(), tree.pieces.size());
  ASSERT_EQ(TextOf(tree), SumText(0, rank_count)) << testing::PrintToString(islands);
}

// Islands of these sizes, ranks in launch order.
std::vector<int> InLaunchOrder(const std::vector<int>& sizes) {
  std::vector<int> islands;
  for (size_t i = 0; i < sizes.size(); ++i)
    islands.insert(islands.end(), sizes[i], static_cast<int>(i));
  return islands;
}

// The most pieces that one island has.
int PiecesMax(const std::vector<int>& islands) {
  std::map<int, int> counts;
  int most = 0;
  for (const TreePiece& piece : PiecesOf(islands).pieces)
    most = std::max(most, ++counts[piece.island]);
  return most;
}

TEST(TreePieces, OneIslandIsOnePiece) {
  for (const int rank_count : {1, 2, 3, 7, 64, 1000}) {
    const TreePieces tree = PiecesOf(std::vector<int>(rank_count, 5));
    EXPECT_EQ(tree.pieces, (std::vector<TreePiece>{{5, 0, rank_count}}));
    EXPECT_EQ(tree.merges, std::vector<uint8_t>{0});
  }
}

TEST(TreePieces, TheExampleOfTheHeader) {
  const TreePieces tree = PiecesOf(InLaunchOrder({3, 3}));
  EXPECT_EQ(tree.pieces, (std::vector<TreePiece>{{0, 0, 2}, {0, 2, 1}, {1, 3, 1}, {1, 4, 2}}));
  EXPECT_EQ(tree.merges, (std::vector<uint8_t>{0, 0, 2, 1}));
}

TEST(TreePieces, ArePartsOfTheCanonicalTreeForAnyMap) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 3000; ++round) {
    const int island_count = 1 + static_cast<int>(random() % 5);
    std::vector<int> islands(1 + random() % 100);
    int island = 0;
    for (int& of_rank : islands) {
      // Runs, or every rank anywhere.
      if (round % 2 == 0 || random() % 6 == 0) island = static_cast<int>(random() % island_count);
      of_rank = island;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectMaximalPiecesOfTheTree(islands))
        << "--gtest_random_seed=" << TestSeed();
  }
}

TEST(TreePieces, IslandsInLaunchOrderHaveFew) {
  for (const int island_count : {2, 3, 4, 5, 16, 33}) {
    for (const int unit : {1, 2, 4, 8, 16}) {
      const auto pieces_of = [&](int units) {
        const std::vector<int> islands =
            InLaunchOrder(std::vector<int>(island_count, units * unit));
        ExpectMaximalPiecesOfTheTree(islands);
        return PiecesMax(islands);
      };
      EXPECT_EQ(pieces_of(1), 1) << island_count << " islands of " << unit;
      EXPECT_EQ(pieces_of(3), 2) << island_count << " islands of " << 3 * unit;
      EXPECT_EQ(pieces_of(5), 3) << island_count << " islands of " << 5 * unit;
      EXPECT_EQ(pieces_of(7), 3) << island_count << " islands of " << 7 * unit;
    }
  }
  EXPECT_EQ(PiecesMax(InLaunchOrder({7, 8, 8})), 4);
}

TEST(TreePieces, OfACyclicMapAreItsRanks) {
  for (const size_t local_count : {2, 3, 8}) {
    std::vector<int> islands(4 * local_count);
    for (size_t rank = 0; rank < islands.size(); ++rank)
      islands[rank] = static_cast<int>(rank % 4);
    const TreePieces tree = PiecesOf(islands);
    EXPECT_EQ(tree.pieces.size(), islands.size());
    EXPECT_EQ(PiecesMax(islands), static_cast<int>(local_count));
  }
}

TEST(TreePieces, OfAMillionRanksAreFewPerIsland) {
  std::vector<int> islands(1 << 20);
  for (size_t rank = 0; rank < islands.size(); ++rank)
    islands[rank] = static_cast<int>(rank / 7);
  const TreePieces tree = PiecesOf(islands);
  int ranks = 0;
  int joins = 0;
  for (size_t i = 0; i < tree.pieces.size(); ++i) {
    ranks += tree.pieces[i].rank_count;
    joins += tree.merges[i];
  }
  EXPECT_EQ(ranks, 1 << 20);
  EXPECT_EQ(joins, static_cast<int>(tree.pieces.size()) - 1);
  EXPECT_LE(tree.pieces.size(), 3 * ((islands.size() + 6) / 7));
}

}  // namespace
}  // namespace weft::tree_pieces_test
