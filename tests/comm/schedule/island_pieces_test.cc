// Islands of ranks: each forms the sums of the maximal subtrees of ranks that it holds, and what is left of the tree is a schedule's. The
// two together are the canonical tree of all ranks, whatever the map of ranks to islands.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/symbolic_sums.h"
#include "comm/schedule/verify_schedule.h"

namespace weft::island_pieces_test {
namespace {

struct IslandPiece {
  int island = 0;
  int first_rank = 0;
  int rank_count = 0;
};

struct IslandTree {
  std::vector<IslandPiece> pieces;  // in the order of ranks
  std::vector<uint8_t> merges;
};

// Walks down the canonical tree of ranks first to first + count - 1 as far as islands are mixed.
void AddPieces(const std::vector<int>& island_of_rank, int first, int count, IslandTree* tree) {
  const auto begin = island_of_rank.begin() + first;
  if (std::all_of(begin, begin + count, [&](int island) { return island == *begin; })) {
    tree->pieces.push_back({*begin, first, count});
    tree->merges.push_back(0);
    return;
  }
  const int left = CanonicalLeft(count);
  AddPieces(island_of_rank, first, left, tree);
  AddPieces(island_of_rank, first + left, count - left, tree);
  ++tree->merges.back();
}

IslandTree TreeOf(const std::vector<int>& island_of_rank) {
  IslandTree tree;
  AddPieces(island_of_rank, 0, static_cast<int>(island_of_rank.size()), &tree);
  return tree;
}

ReductionOrder OrderOf(const IslandTree& tree, int islands) {
  std::vector<OrderPiece> pieces;
  for (const IslandPiece& piece : tree.pieces)
    pieces.push_back(
        {piece.island, piece.rank_count == 1 ? UnitForm::kElement : UnitForm::kAccumulator});
  const absl::StatusOr<ReductionOrder> order = ReductionOrder::Create(islands, pieces, tree.merges);
  EXPECT_TRUE(order.ok()) << order.status();
  return *order;
}

// Each piece summed along its own canonical tree, and these along the merges.
SumId SumOf(const IslandTree& tree, SymbolicSums* sums) {
  std::vector<SumId> values;
  for (const IslandPiece& piece : tree.pieces) {
    std::vector<SumId> ranks;
    for (int rank = piece.first_rank; rank < piece.first_rank + piece.rank_count; ++rank)
      ranks.push_back(sums->Leaf(rank));
    values.push_back(sums->Tree(ranks, {}));
  }
  return sums->Tree(values, tree.merges);
}

// What maps are like in practice, and some that are not.
std::vector<std::vector<int>> Maps(std::mt19937_64* random) {
  std::vector<std::vector<int>> maps;
  const auto add_blocks = [&](const std::vector<int>& sizes) {
    std::vector<int>& map = maps.emplace_back();
    for (size_t island = 0; island < sizes.size(); ++island)
      map.insert(map.end(), static_cast<size_t>(sizes[island]), static_cast<int>(island));
  };
  for (const std::vector<int>& sizes : {std::vector<int>{8, 8},
                                        {8, 8, 8},
                                        {6, 6},
                                        {7, 8, 8},
                                        {1, 1, 1, 1, 1},
                                        {3, 5, 2, 9},
                                        {64, 64, 64},
                                        {12, 12, 12, 12},
                                        {16}}) {
    add_blocks(sizes);
  }
  for (const int islands : {2, 3, 5, 8}) {
    std::vector<int>& cyclic = maps.emplace_back();
    for (int rank = 0; rank < islands * 4; ++rank)
      cyclic.push_back(rank % islands);
    std::vector<int> shuffled = cyclic;
    std::shuffle(shuffled.begin(), shuffled.end(), *random);
    maps.push_back(shuffled);
  }
  return maps;
}

TEST(IslandPieces, AndTheScheduleOverThemAreTheCanonicalTree) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (const std::vector<int>& map : Maps(&random)) {
    const int islands = *std::max_element(map.begin(), map.end()) + 1;
    const auto count = static_cast<uint64_t>(islands) * 60;
    const IslandTree tree = TreeOf(map);
    SymbolicSums sums;
    std::vector<SumId> ranks;
    for (size_t rank = 0; rank < map.size(); ++rank)
      ranks.push_back(sums.Leaf(static_cast<int32_t>(rank)));
    ASSERT_EQ(sums.Tree(ranks, {}), SumOf(tree, &sums)) << map.size() << " ranks";

    const ScheduleGoal goal = {.kind = GoalKind::kAllReduce,
                               .participants = islands,
                               .count = count,
                               .order = OrderOf(tree, islands)};
    const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*MakeDirectSchedule(goal));
    ASSERT_TRUE(proof.ok()) << map.size() << " ranks: " << proof.status();
    // Of each piece (N-1)/N, elements if it is one rank's, and (N-1)/N of the result.
    const uint64_t part = count - count / static_cast<uint64_t>(islands);
    std::vector<SentUnits> expected(static_cast<size_t>(islands), {part, 0});
    for (const IslandPiece& piece : tree.pieces) {
      SentUnits& sent = expected[static_cast<size_t>(piece.island)];
      (piece.rank_count == 1 ? sent.elements : sent.accumulators) += part;
    }
    EXPECT_EQ(expected, proof->sent) << map.size() << " ranks";
  }
}

TEST(IslandPieces, OfAPowerOfTwoInLaunchOrderAreOneEach) {
  for (int islands = 1; islands <= 33; ++islands) {
    for (const int ranks : {1, 2, 4, 8}) {
      std::vector<int> map(static_cast<size_t>(islands) * static_cast<size_t>(ranks));
      for (size_t rank = 0; rank < map.size(); ++rank)
        map[rank] = static_cast<int>(rank) / ranks;
      const ReductionOrder order = OrderOf(TreeOf(map), islands);
      ASSERT_TRUE(order.OnePieceEach()) << islands << " x " << ranks;
      const ScheduleGoal goal = {
          .kind = GoalKind::kAllReduce, .participants = islands, .count = 997, .order = order};
      const absl::StatusOr<ScheduleProof> proof = VerifySchedule(*MakeTreeHalvingSchedule(goal));
      ASSERT_TRUE(proof.ok()) << islands << " x " << ranks << ": " << proof.status();
    }
  }
}

TEST(IslandPieces, AreAsManyAsTheDesignSays) {
  const auto most = [](const std::vector<int>& map) {
    std::vector<int> counts(map.size());
    for (const IslandPiece& piece : TreeOf(map).pieces)
      ++counts[static_cast<size_t>(piece.island)];
    return *std::max_element(counts.begin(), counts.end());
  };
  // Two of 3 * 2^k ranks, four of 7, 8 and 8, and each rank for itself where ranks go round.
  const auto map = [](int ranks, int (*island_of)(int)) {
    std::vector<int> islands(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      islands[static_cast<size_t>(rank)] = island_of(rank);
    return islands;
  };
  EXPECT_EQ(2, most(map(48, [](int rank) { return rank / 12; })));
  EXPECT_EQ(4, most(map(23, [](int rank) { return rank < 7 ? 0 : rank < 15 ? 1 : 2; })));
  EXPECT_EQ(8, most(map(24, [](int rank) { return rank % 3; })));
}

}  // namespace
}  // namespace weft::island_pieces_test
