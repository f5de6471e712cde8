#include "comm/kernels/custom_op.h"

#include <cstring>

#include "base/check.h"
// Compiled here for any CPU, like the plain kernels.
#include "comm/kernels/lanes_float8.h"

namespace weft {
namespace {

constexpr int kTreeDepthMax = 6;  // 2^6 is kSourcesMax
static_assert(kSourcesMax <= 1 << kTreeDepthMax);

// One tile of the tree. A subtree's result lies in the buffer of its depth, or is a source: the left
// half of a tree has its parent's depth, so that the parent may be formed in place.
class UserTile {
 public:
  UserTile(const CustomOp& op, weft_dtype_t dtype, const ReduceArguments& arguments)
      : op_(op), dtype_(dtype), element_bytes_(DtypeSize(dtype)), arguments_(arguments) {}

  // Reduces `count` elements from `first` on.
  void Reduce(size_t first, size_t count) {
    offset_ = first * element_bytes_;
    count_ = count;
    const char* const result = Tree(0, arguments_.source_count, 0);
    for (int d = 0; d < arguments_.destination_count; ++d) {
      char* const destination = static_cast<char*>(arguments_.destinations[d]) + offset_;
      if (destination != result) std::memcpy(destination, result, count_ * element_bytes_);
    }
  }

 private:
  const char* Tree(int first, int source_count, int depth) {
    if (source_count == 1) return Leaf(first, depth);
    int left_count = 1;
    while (left_count * 2 < source_count)
      left_count *= 2;
    const char* const left = Tree(first, left_count, depth);
    const char* const right = Tree(first + left_count, source_count - left_count, depth + 1);
    op_.function(left, right, buffers_[depth], count_, dtype_, op_.user);
    return buffers_[depth];
  }

  // The source itself, or an aligned copy of it.
  const char* Leaf(int index, int depth) {
    const char* const source = static_cast<const char*>(arguments_.sources[index]) + offset_;
    if (reinterpret_cast<uintptr_t>(source) % element_bytes_ == 0) return source;
    std::memcpy(buffers_[depth], source, count_ * element_bytes_);
    return buffers_[depth];
  }

  const CustomOp& op_;
  const weft_dtype_t dtype_;
  const size_t element_bytes_;
  const ReduceArguments& arguments_;
  size_t offset_ = 0;
  size_t count_ = 0;
  alignas(64) char buffers_[kTreeDepthMax + 1][kUserTileBytes];
};

template <typename Lanes>
float UnpackOne(const void* element) {
  return Lanes::Unpack(LoadAs<typename Lanes::Raw>(static_cast<const char*>(element)));
}

uint64_t BitsOf(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

}  // namespace

uint64_t FactorBits(weft_dtype_t dtype, const void* element) {
  switch (dtype) {
    case WEFT_FLOAT16:
      return BitsOf(UnpackOne<HalfLanes<1>>(element));
    case WEFT_BFLOAT16:
      return BitsOf(UnpackOne<BfloatLanes<0>>(element));
    case WEFT_FLOAT8_E4M3:
      return BitsOf(UnpackOne<Float8Lanes<E4m3, 0, false>>(element));
    case WEFT_FLOAT8_E5M2:
      return BitsOf(UnpackOne<Float8Lanes<E5m2, 0, false>>(element));
    default:
      break;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, element, DtypeSize(dtype));  // little endian, as the kernels
  return bits;
}

void ReduceByUser(const CustomOp& op, weft_dtype_t dtype, const ReduceArguments& arguments) {
  WEFT_CHECK(op.function != nullptr && IsDtype(dtype));
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  const size_t tile_count = kUserTileBytes / DtypeSize(dtype);
  UserTile tile(op, dtype, arguments);
  for (size_t done = 0; done < arguments.count; done += tile_count) {
    const size_t left = arguments.count - done;
    tile.Reduce(done, left < tile_count ? left : tile_count);
  }
}

}  // namespace weft
