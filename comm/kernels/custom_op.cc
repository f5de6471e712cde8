#include "comm/kernels/custom_op.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/check.h"
// Compiled here for any CPU, like the plain kernels.
#include "comm/kernels/lanes_float8.h"

namespace weft {
namespace {

// Room for what waits for its right half, in T(n): the trees over 2^0, 2^1 ... 2^5 sources, and what is being formed.
constexpr int kTilesMax = 7;
static_assert(kSourcesMax <= 1 << (kTilesMax - 1));

// One tile of the tree at a time, as a stack of results: the i-th is a source, or lies in the i-th buffer. A
// result takes the place of its left half, so that it may be formed in place.
class UserTile {
 public:
  UserTile(const CustomOp& op, weft_dtype_t dtype, const ReduceArguments& arguments)
      : op_(op),
        dtype_(dtype),
        value_bytes_(DtypeSize(dtype)),
        element_bytes_(op.element_count * value_bytes_),
        arguments_(arguments) {
    int results = 0;
    int results_max = 0;
    for (int s = 0; s < arguments_.source_count; ++s) {
      results_max = std::max(results_max, ++results);
      results -= Joins(s);
      WEFT_CHECK(results >= 1);
    }
    WEFT_CHECK(results == 1);
    // A tree that keeps more waiting than T(n) does is reduced in smaller tiles.
    const size_t room = sizeof(own_) / static_cast<size_t>(results_max);
    buffer_bytes_ = std::min(kUserTileBytes, room / kAlignment * kAlignment);
    if (buffer_bytes_ >= element_bytes_) return;
    buffer_bytes_ = (element_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    large_.resize(buffer_bytes_ * static_cast<size_t>(results_max));
    buffers_ = large_.data();
  }

  UserTile(const UserTile&) = delete;
  UserTile& operator=(const UserTile&) = delete;

  size_t tile_count() const { return buffer_bytes_ / element_bytes_; }

  // Reduces `count` elements from `first` on, at most tile_count().
  void Reduce(size_t first, size_t count) {
    offset_ = first * element_bytes_;
    count_ = count;
    const char* results[kSourcesMax];
    int top = -1;
    for (int s = 0; s < arguments_.source_count; ++s) {
      ++top;
      results[top] = Leaf(s, Buffer(top));
      for (int joins = Joins(s); joins != 0; --joins) {
        --top;
        char* const joined = Buffer(top);
        op_.function(results[top], results[top + 1], joined, count_ * op_.element_count, dtype_,
                     op_.user);
        results[top] = joined;
      }
    }
    for (int d = 0; d < arguments_.destination_count; ++d) {
      char* const destination = static_cast<char*>(arguments_.destinations[d]) + offset_;
      if (destination != results[0]) {
        std::memcpy(destination, results[0], count_ * element_bytes_);
      }
    }
  }

 private:
  static constexpr size_t kAlignment = 64;

  // How often the last two results are joined once `source` has been taken. In T(n) results wait as the ones in
  // a binary counter do.
  int Joins(int source) const {
    if (arguments_.merges != nullptr) return arguments_.merges[source];
    const auto taken_before = static_cast<unsigned>(source);
    return source + 1 == arguments_.source_count ? std::popcount(taken_before)
                                                 : std::countr_one(taken_before);
  }

  char* Buffer(int index) { return buffers_ + static_cast<size_t>(index) * buffer_bytes_; }

  // The source itself, or an aligned copy of it in `buffer`.
  const char* Leaf(int index, char* buffer) const {
    const char* const source = static_cast<const char*>(arguments_.sources[index]) + offset_;
    if (reinterpret_cast<uintptr_t>(source) % value_bytes_ == 0) return source;
    std::memcpy(buffer, source, count_ * element_bytes_);
    return buffer;
  }

  const CustomOp& op_;
  const weft_dtype_t dtype_;
  const size_t value_bytes_;
  const size_t element_bytes_;
  const ReduceArguments& arguments_;
  size_t buffer_bytes_ = 0;
  size_t offset_ = 0;
  size_t count_ = 0;
  char* buffers_ = own_;
  std::vector<char> large_;  // where a buffer's part of own_ is less than an element
  alignas(kAlignment) char own_[kTilesMax * kUserTileBytes];
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
  UserTile tile(op, dtype, arguments);
  const size_t tile_count = tile.tile_count();
  for (size_t done = 0; done < arguments.count; done += tile_count) {
    const size_t left = arguments.count - done;
    tile.Reduce(done, left < tile_count ? left : tile_count);
  }
}

}  // namespace weft
