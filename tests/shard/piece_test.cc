#include "shard/optimizer/piece.h"

#include "gtest/gtest.h"

namespace weft::piece_test {
namespace {

constexpr size_t kPiece = kPieceElements;

TEST(Piece, CoversTheIntervalAndCutsAtMultiplesOfTheSpace) {
  for (const size_t begin :
       {size_t{0}, size_t{1}, size_t{128}, kPiece - 1, kPiece, 5 * kPiece + 3}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{127}, kPiece - 1, kPiece, kPiece + 1,
                               3 * kPiece, 7 * kPiece + 501}) {
      size_t at = begin;
      for (size_t i = 0; i < PieceCount(begin, count); ++i) {
        const Piece piece = PieceOf(begin, count, i);
        EXPECT_EQ(piece.begin, at);
        EXPECT_TRUE(i == 0 || piece.begin % kPiece == 0);
        EXPECT_GT(piece.count, 0u);
        EXPECT_LE(piece.count, kPiece);
        at += piece.count;
      }
      EXPECT_EQ(at, begin + count);
    }
  }
}

}  // namespace
}  // namespace weft::piece_test
