// Trees of reductions: canonical ones without tables and with them are the same; what is no tree is refused.
#include "comm/schedule/reduction_order.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

namespace weft::reduction_order_test {
namespace {

// As a binary counter carries.
std::vector<uint8_t> CanonicalMerges(int leaves) {
  std::vector<uint8_t> merges;
  for (int leaf = 0; leaf + 1 < leaves; ++leaf)
    merges.push_back(static_cast<uint8_t>(std::countr_one(static_cast<unsigned>(leaf))));
  merges.push_back(static_cast<uint8_t>(std::popcount(static_cast<unsigned>(leaves - 1))));
  return merges;
}

void ExpectSameTree(const ReductionOrder& a, const OrderVertex& at_a, const ReductionOrder& b,
                    const OrderVertex& at_b) {
  ASSERT_EQ(at_a.first, at_b.first);
  ASSERT_EQ(at_a.count, at_b.count);
  ASSERT_EQ(a.IsPerfect(at_a), b.IsPerfect(at_b));
  if (at_a.count == 1) return;
  ExpectSameTree(a, a.Left(at_a), b, b.Left(at_b));
  ExpectSameTree(a, a.Right(at_a), b, b.Right(at_b));
}

TEST(ReductionOrder, CanonicalTreeNeedsNoTable) {
  for (int n = 1; n <= 70; ++n) {
    const ReductionOrder ranks(n);
    std::vector<OrderPiece> pieces(static_cast<size_t>(n));
    for (int p = 0; p < n; ++p)
      pieces[static_cast<size_t>(p)].holder = p;
    const absl::StatusOr<ReductionOrder> table =
        ReductionOrder::Create(n, pieces, CanonicalMerges(n));
    ASSERT_TRUE(table.ok()) << n << ": " << table.status();
    ExpectSameTree(ranks, ranks.Root(), *table, table->Root());
    EXPECT_EQ(ranks.Levels(), table->Levels()) << n;
    EXPECT_TRUE(table->OnePieceEach());
  }
}

TEST(ReductionOrder, KnowsWhoHoldsWhat) {
  const absl::StatusOr<ReductionOrder> order = ReductionOrder::Create(
      2, {{1}, {0, UnitForm::kAccumulator}, {1, UnitForm::kAccumulator}, {1}}, {0, 1, 0, 2});
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_FALSE(order->OnePieceEach());
  ASSERT_EQ(3, order->PieceCountOf(1));
  EXPECT_EQ(1, order->PieceOf(0, 0));
  EXPECT_EQ(0, order->PieceOf(1, 0));
  EXPECT_EQ(2, order->PieceOf(1, 1));
  EXPECT_EQ(3, order->PieceOf(1, 2));
  // The second of its elements, the first of its accumulators.
  EXPECT_EQ(1, order->PlaceOf(1, 2));
  EXPECT_EQ(0, order->PlaceOf(1, 1));
}

TEST(ReductionOrder, WhatIsNoTreeIsRefused) {
  EXPECT_FALSE(ReductionOrder::Create(1, {}, {}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {1}}, {0}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {1}}, {0, 0}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {1}}, {1, 0}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {1}}, {0, 2}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {2}}, {0, 1}).ok());
  EXPECT_FALSE(ReductionOrder::Create(3, {{0}, {2}}, {0, 1}).ok());
  EXPECT_FALSE(ReductionOrder::Create(2, {{0}, {-1}}, {0, 1}).ok());
  // A chain of 33 sums.
  std::vector<OrderPiece> pieces(34);
  std::vector<uint8_t> merges(34, 1);
  merges[0] = 0;
  EXPECT_FALSE(ReductionOrder::Create(1, pieces, merges).ok());
  pieces.pop_back();
  merges.pop_back();
  EXPECT_TRUE(ReductionOrder::Create(1, pieces, merges).ok());
}

}  // namespace
}  // namespace weft::reduction_order_test
