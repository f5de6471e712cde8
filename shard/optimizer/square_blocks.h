// The sum of squares of a block of 128 elements, in one fixed order.
//
// Element i (float64: rounded to float32) is squared in float64, which is exact, and added to partial sum i mod
// 16, in order of i; the 16 partial sums are then folded: i and i + 8, i and i + 4, i and i + 2, 0 and 1.
// Every instruction set does just these additions, hence the same bits. Sixteen, as additions to one sum
// wait for each other: two registers of AVX-512, four of AVX2.
//
// Internal linkage throughout, see comm/kernels/lanes.h.
#pragma once

#include "comm/kernels/default_rounding.h"
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_lanes.h"
#include "shard/optimizer/optimizer_walk.h"

namespace weft {
namespace {

inline constexpr size_t kPartials = 16;

template <typename Lanes>
class BlockSum {
 public:
  static constexpr int kRegisters = kPartials / Lanes::kWidth;

  // Adds the squares of elements `part` x width and following of a row of 16.
  WEFT_INLINE void Add(int part, typename Lanes::Doubles values) {
    partials_[part] = partials_[part] + values * values;
  }

  WEFT_INLINE double Fold() const {
    double partials[kPartials];
    __builtin_memcpy(partials, partials_, sizeof(partials));
#pragma GCC unroll 4
    for (size_t half = kPartials / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (size_t i = 0; i < half; ++i)
        partials[i] = partials[i] + partials[i + half];
    }
    return partials[0];
  }

 private:
  typename Lanes::Doubles partials_[kRegisters] = {};
};

template <typename Lanes, weft_dtype_t kDtype>
WEFT_INLINE void SumBlocksOf(const char* values, size_t blocks, double* squares) {
  constexpr size_t kBytes = BytesOf(kDtype);
  for (size_t block = 0; block < blocks; ++block) {
    BlockSum<Lanes> sum;
    for (size_t row = 0; row < kSquareBlock / kPartials; ++row) {
#pragma GCC unroll 16
      for (int part = 0; part < BlockSum<Lanes>::kRegisters; ++part) {
        auto elements = Lanes::LoadTyped(values, kDtype);
        if (kDtype == WEFT_FLOAT64) elements = Lanes::Widen(Lanes::Narrow(elements));
        sum.Add(part, elements);
        values += kBytes * Lanes::kWidth;
      }
    }
    squares[block] = sum.Fold();
  }
}

template <typename Lanes>
void SumBlocks(const char* values, weft_dtype_t dtype, size_t blocks, double* squares) {
  const DefaultRounding rounding;
  switch (dtype) {
    case WEFT_FLOAT32:
      return SumBlocksOf<Lanes, WEFT_FLOAT32>(values, blocks, squares);
    case WEFT_FLOAT64:
      return SumBlocksOf<Lanes, WEFT_FLOAT64>(values, blocks, squares);
    case WEFT_BFLOAT16:
      return SumBlocksOf<Lanes, WEFT_BFLOAT16>(values, blocks, squares);
    default:
      return SumBlocksOf<Lanes, WEFT_FLOAT16>(values, blocks, squares);
  }
}

}  // namespace
}  // namespace weft
