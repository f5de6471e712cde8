#include "shard/optimizer/sum_squares.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

// Blocks whose sums are waiting to be added: bounds the stack.
constexpr size_t kSquareBlocksAtOnce = 64;

// Infinities and NaNs are those whose exponent has all bits set.
template <typename Bits>
int64_t CountNonfinite(const char* values, size_t count, Bits exponent) {
  int64_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i * sizeof(bits), sizeof(bits));
    found += (bits & exponent) == exponent ? 1 : 0;
  }
  return found;
}

int64_t CountBeyondFloat32(const char* values, size_t count) {
  int64_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, values + i * sizeof(value), sizeof(value));
    found += std::isfinite(static_cast<float>(value)) ? 0 : 1;
  }
  return found;
}

int64_t CountNonfiniteOf(weft_dtype_t dtype, const char* values, size_t count) {
  if (dtype == WEFT_FLOAT32) return CountNonfinite<uint32_t>(values, count, 0x7f800000);
  if (dtype == WEFT_FLOAT64) return CountBeyondFloat32(values, count);
  return CountNonfinite<uint16_t>(values, count, dtype == WEFT_BFLOAT16 ? 0x7f80 : 0x7c00);
}

// At most kSquareBlocksAtOnce whole blocks.
int64_t AddBlocks(const OptimizerKernels& kernels, weft_dtype_t dtype, const char* values,
                  size_t blocks, ExactSum& sum) {
  double squares[kSquareBlocksAtOnce];
  kernels.square_blocks(values, dtype, blocks, squares);
  int64_t nonfinite = 0;
  for (size_t block = 0; block < blocks; ++block) {
    sum.Add(squares[block]);
    // Squares of finite elements do not overflow, so only the other blocks need to be looked through.
    if (std::isfinite(squares[block])) continue;
    nonfinite +=
        CountNonfiniteOf(dtype, values + block * kSquareBlock * DtypeSize(dtype), kSquareBlock);
  }
  return nonfinite;
}

}  // namespace

int64_t AddSquares(Isa isa, weft_dtype_t dtype, const void* values, size_t count,
                   uint64_t first_index, ExactSum& sum) {
  WEFT_CHECK(dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT64 || dtype == WEFT_BFLOAT16 ||
             dtype == WEFT_FLOAT16);
  const OptimizerKernels& kernels = KernelsOf(isa);
  const size_t element_bytes = DtypeSize(dtype);
  int64_t nonfinite = 0;
  for (size_t done = 0; done < count;) {
    const char* const from = static_cast<const char*>(values) + done * element_bytes;
    const size_t begin = (first_index + done) % kSquareBlock;
    const size_t rest = count - done;
    if (begin != 0 || rest < kSquareBlock) {  // the rest of the block counts as zeros
      const size_t part = std::min(kSquareBlock - begin, rest);
      char block[kSquareBlock * sizeof(double)] = {};
      std::memcpy(block + begin * element_bytes, from, part * element_bytes);
      nonfinite += AddBlocks(kernels, dtype, block, 1, sum);
      done += part;
    } else {
      const size_t blocks = std::min(rest / kSquareBlock, kSquareBlocksAtOnce);
      nonfinite += AddBlocks(kernels, dtype, from, blocks, sum);
      done += blocks * kSquareBlock;
    }
  }
  return nonfinite;
}

}  // namespace weft
