// Pieces of maps of ranks, the orders that nest, and what a collective over nodes is said to cost.
#include "comm/hierarchy/span_price.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/hierarchy/explain_span.h"
#include "tests/support/leak_check.h"

namespace weft::test::span_price_test {
namespace {

Islands Map(const std::vector<int>& nodes) {
  Membership membership;
  for (size_t rank = 0; rank < nodes.size(); ++rank)
    membership.members.push_back({.rank = static_cast<int>(rank), .fake_node = nodes[rank]});
  return IslandsOf(membership);
}

TEST(SpanPrice, ByTurnsIsAPieceForEachRank) {
  const Islands turns = Map({0, 1, 0, 1});
  EXPECT_EQ(PiecesMax(turns), 2);
  EXPECT_EQ(NestedOrder(turns), (std::vector<int>{0, 2, 1, 3}));
  const std::string sentence = PriceSentence(turns);
  for (const char* const word : {"2 pieces", "sends 3 times", "where 2 would do", "0,2,1,3"})
    EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
}

TEST(SpanPrice, NothingIsSaidWhereNoOrderIsBetter) {
  EXPECT_EQ(PriceSentence(Map({0, 0, 1, 1})), "");
  EXPECT_EQ(PriceSentence(Map({0, 1, 2})), "");
  EXPECT_EQ(PiecesMax(Map({0, 0, 0, 1})), 2);
  EXPECT_EQ(PriceSentence(Map({0, 0, 0, 1})), "");  // three ranks are two pieces in any order
}

TEST(SpanPrice, LargerNodesComeFirst) {
  const Islands islands = Map({0, 0, 1, 1, 1, 1});
  EXPECT_EQ(PiecesMax(islands), 2);
  EXPECT_EQ(NestedOrder(islands), (std::vector<int>{2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(PiecesMax(Reordered(islands, NestedOrder(islands))), 1);
}

// Nodes of 2^k ranks are one piece each in that order, however they were mixed.
TEST(SpanPrice, PowersOfTwoNestInSomeOrder) {
  const uint64_t seed = TestSeed(48);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> nodes;
    const int count = 2 + static_cast<int>(random() % 6);
    for (int node = 0; node < count; ++node)
      nodes.insert(nodes.end(), size_t{1} << random() % 4, node);
    std::shuffle(nodes.begin(), nodes.end(), random);
    const Islands islands = Map(nodes);
    const Islands nested = Reordered(islands, NestedOrder(islands));
    EXPECT_EQ(PiecesMax(nested), 1);
    EXPECT_EQ(PriceSentence(nested), "");
  }
}

// An island sends (N-1)/N S (1 + the sum over its pieces of their width).
TEST(ExplainSpan, BytesAreThoseOfThePrice) {
  constexpr uint64_t kBytes = 8 << 20;

  struct Case {
    std::vector<int> nodes;
    weft_dtype_t dtype;
    weft_op_t op;
    uint64_t half_vectors;  // of the node that sends most
    int pieces;
    weft_numerics_t numerics = WEFT_NUMERICS_CANONICAL;
  };

  for (const Case& one :
       {Case{{0, 0, 1, 1}, WEFT_FLOAT32, WEFT_SUM, 2, 1},
        Case{{0, 1, 0, 1}, WEFT_FLOAT32, WEFT_SUM, 3, 2},
        Case{{0, 0, 1, 1}, WEFT_BFLOAT16, WEFT_SUM, 3, 1},
        Case{{0, 1}, WEFT_BFLOAT16, WEFT_SUM, 2, 1},
        Case{{0, 0, 0, 1}, WEFT_FLOAT32, WEFT_SUM, 3, 2},
        // One piece, of the type, where any order has the same bits, or none is asked for.
        Case{{0, 1, 0, 1}, WEFT_INT32, WEFT_SUM, 2, 1},
        Case{{0, 1, 0, 1}, WEFT_INT64, WEFT_AVG, 2, 1},
        Case{{0, 0, 0, 1}, WEFT_UINT8, WEFT_PROD, 2, 1},
        Case{{0, 0, 0, 1}, WEFT_BFLOAT16, WEFT_MAX, 2, 1},
        Case{{0, 1, 0, 1}, WEFT_FLOAT64, WEFT_MIN, 2, 1},
        Case{{0, 1, 0, 1}, WEFT_UINT32, WEFT_BIT_XOR, 2, 1},
        Case{{0, 1, 0, 1}, WEFT_FLOAT32, WEFT_SUM, 2, 1, WEFT_NUMERICS_FAST},
        Case{{0, 1, 0, 1}, WEFT_FLOAT32, WEFT_AVG, 3, 2, WEFT_NUMERICS_FAST},
        Case{{0, 1, 0, 1}, WEFT_BFLOAT16, WEFT_SUM, 3, 2, WEFT_NUMERICS_FAST}}) {
    const Collective call{.kind = OpKind::kAllReduce,
                          .dtype = one.dtype,
                          .op = one.op,
                          .count = kBytes / DtypeSize(one.dtype),
                          .numerics = one.numerics};
    const auto all = ExplainSpan(call, Map(one.nodes), LinkModel::Default());
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_NEAR(static_cast<double>(all->node_bytes),
                static_cast<double>(one.half_vectors * kBytes / 2), 4096)
        << all->schedule;
    EXPECT_GE(all->predicted_ns,
              LinkModel::Default().far.BytesNs(one.half_vectors * kBytes / 2 - 4096));
    EXPECT_GE(all->levels, 2);
    EXPECT_EQ(all->pieces, one.pieces);
  }
}

// (N-1)/N of the vector twice from each node, for every map.
TEST(ExplainSpan, WhatAddsInAnyOrderIsOnePieceWhateverTheMap) {
  constexpr uint64_t kBytes = 9 << 20;
  std::vector<std::vector<int>> maps = {{0, 1, 0, 1}, {0, 0, 0, 1}, {0, 0, 1, 1}, {}, {}};
  for (const int ranks : {7, 8, 8}) {
    const int node = maps[3].empty() ? 0 : maps[3].back() + 1;
    maps[3].insert(maps[3].end(), static_cast<size_t>(ranks), node);
  }
  for (int rank = 0; rank < 24; ++rank)
    maps[4].push_back(rank % 3);
  for (const std::vector<int>& nodes : maps) {
    const Islands islands = Map(nodes);
    const Collective call{.kind = OpKind::kAllReduce,
                          .dtype = WEFT_INT32,
                          .op = WEFT_SUM,
                          .count = kBytes / sizeof(int32_t)};
    const auto all = ExplainSpan(call, islands, LinkModel::Default());
    ASSERT_TRUE(all.ok()) << all.status();
    const auto count = static_cast<uint64_t>(islands.count());
    EXPECT_EQ(all->all_far_bytes, 2 * (count - 1) * kBytes) << all->schedule;
    EXPECT_NEAR(static_cast<double>(all->node_bytes),
                static_cast<double>(2 * (count - 1) * kBytes / count), 4096);
  }
}

TEST(ExplainSpan, SmallOnesAreLevelsDeep) {
  std::vector<int> nodes(8);
  for (int rank = 0; rank < 8; ++rank)
    nodes[static_cast<size_t>(rank)] = rank;
  const Collective call{
      .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 2};
  const LinkModel model = LinkModel::Default();
  const auto all = ExplainSpan(call, Map(nodes), model);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->schedule, "recursive_doubling");
  EXPECT_EQ(all->levels, 3);
  EXPECT_EQ(all->predicted_ns, 3 * model.far.MessageNs(8));
}

}  // namespace
}  // namespace weft::test::span_price_test
