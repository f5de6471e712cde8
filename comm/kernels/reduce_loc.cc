// min_loc and max_loc, in plain C++ on every instruction set: 16 bytes are moved for each value, so
// the memory decides and not the comparison. Values are compared as integers, so nothing depends on
// the floating-point environment.
//
// The best of pairs is the same whatever the order in which they meet; the tree is not needed.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/lanes.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {
namespace {

// Integers are compared as they are.
template <typename T>
struct IntegerOrder {
  using Bits = T;
  using Key = T;

  template <bool kMinimum>
  static Key KeyOf(Bits bits) {
    return bits;
  }

  template <bool kMinimum>
  static Bits BitsOf(Key key) {
    return key;
  }
};

// Floating-point numbers of any format as integers in the same order, -0 just below +0. NaNs become
// the one key that beats every number.
template <typename BitsT, BitsT kNumberMax, BitsT kNan>
struct FloatOrder {
  using Bits = BitsT;
  using Key = std::make_signed_t<Bits>;
  using Limits = std::numeric_limits<Key>;
  static constexpr Bits kSign = static_cast<Bits>(Limits::min());

  template <bool kMinimum>
  static constexpr Key kNanKey = kMinimum ? Limits::min() : Limits::max();

  template <bool kMinimum>
  static Key KeyOf(Bits bits) {
    const Bits magnitude = static_cast<Bits>(bits & ~kSign);
    if (magnitude > kNumberMax) return kNanKey<kMinimum>;
    return static_cast<Key>((bits & kSign) != 0 ? ~magnitude : magnitude);
  }

  template <bool kMinimum>
  static Bits BitsOf(Key key) {
    if (key == kNanKey<kMinimum>) return kNan;
    const Bits bits = static_cast<Bits>(key);
    return key < 0 ? static_cast<Bits>(~bits | kSign) : bits;
  }
};

constexpr size_t kIndexOffset = 8;

template <typename Order, bool kMinimum>
struct Located {
  typename Order::Key key;
  int64_t index;

  static Located Load(const char* from) {
    return {Order::template KeyOf<kMinimum>(LoadAs<typename Order::Bits>(from)),
            LoadAs<int64_t>(from + kIndexOffset)};
  }

  // Whether this one is chosen of the two.
  bool Beats(const Located& other) const {
    if (key == other.key) return index < other.index;
    return kMinimum ? key < other.key : key > other.key;
  }

  void Store(char* to) const {
    StoreAs<uint64_t>(to, 0);
    StoreAs(to, Order::template BitsOf<kMinimum>(key));
    StoreAs(to + kIndexOffset, index);
  }
};

template <typename Order, bool kMinimum>
void ReduceLocated(const ReduceArguments& arguments) {
  using Pair = Located<Order, kMinimum>;
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  for (size_t offset = 0; offset < arguments.count * kLocBytes; offset += kLocBytes) {
    Pair best = Pair::Load(static_cast<const char*>(arguments.sources[0]) + offset);
    for (int s = 1; s < arguments.source_count; ++s) {
      const Pair pair = Pair::Load(static_cast<const char*>(arguments.sources[s]) + offset);
      if (pair.Beats(best)) best = pair;
    }
    for (int d = 0; d < arguments.destination_count; ++d) {
      best.Store(static_cast<char*>(arguments.destinations[d]) + offset);
    }
  }
}

template <typename Order>
ReduceKernel FindLocOp(weft_op_t op) {
  if (op == WEFT_MIN_LOC) return ReduceLocated<Order, true>;
  return op == WEFT_MAX_LOC ? ReduceLocated<Order, false> : nullptr;
}

}  // namespace

ReduceKernel FindLocKernel(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_INT8:
      return FindLocOp<IntegerOrder<int8_t>>(op);
    case WEFT_UINT8:
      return FindLocOp<IntegerOrder<uint8_t>>(op);
    case WEFT_INT32:
      return FindLocOp<IntegerOrder<int32_t>>(op);
    case WEFT_UINT32:
      return FindLocOp<IntegerOrder<uint32_t>>(op);
    case WEFT_INT64:
      return FindLocOp<IntegerOrder<int64_t>>(op);
    case WEFT_UINT64:
      return FindLocOp<IntegerOrder<uint64_t>>(op);
    case WEFT_FLOAT16:
      return FindLocOp<FloatOrder<uint16_t, 0x7c00, 0x7e00>>(op);
    case WEFT_BFLOAT16:
      return FindLocOp<FloatOrder<uint16_t, 0x7f80, 0x7fc0>>(op);
    case WEFT_FLOAT32:
      return FindLocOp<FloatOrder<uint32_t, 0x7f800000u, 0x7fc00000u>>(op);
    case WEFT_FLOAT64:
      return FindLocOp<FloatOrder<uint64_t, 0x7ff0000000000000u, 0x7ff8000000000000u>>(op);
    case WEFT_FLOAT8_E4M3:
      return FindLocOp<FloatOrder<uint8_t, 0x7e, 0x7f>>(op);
    case WEFT_FLOAT8_E5M2:
      return FindLocOp<FloatOrder<uint8_t, 0x7c, 0x7e>>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
