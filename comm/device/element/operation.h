// The operations of a reduction as device kernels see them: how two accumulators become one.
//
//   const float sum = Sum::Combine<Bfloat16>(left, right);
//
// kScaled: each source is multiplied by its factor first. kDivides: the result is divided by the divisor of the call.
// Written apart from comm/kernels/lanes.h, by cases rather than by bits, so that each checks the other.
//
// Thread-safety: pure functions.
#pragma once

#include "comm/device/element/element.h"

namespace weft::device {

struct Operation {
  static constexpr bool kScaled = false;
  static constexpr bool kDivides = false;
};

struct Sum : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Accumulator Combine(typename E::Accumulator left,
                                                     typename E::Accumulator right) {
    if constexpr (E::kBool) {
      return left | right;
    } else if constexpr (E::kFloating) {
      return left + right;
    } else {
      using U = typename E::Unsigned;
      return static_cast<typename E::Raw>(
          static_cast<U>(static_cast<U>(left) + static_cast<U>(right)));
    }
  }
};

struct Average : Sum {
  static constexpr bool kDivides = true;
};

struct ScaledSum : Sum {
  static constexpr bool kScaled = true;
};

struct Product : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Accumulator Combine(typename E::Accumulator left,
                                                     typename E::Accumulator right) {
    if constexpr (E::kBool) {
      return left & right;
    } else if constexpr (E::kFloating) {
      return left * right;
    } else {
      using U = typename E::Unsigned;
      return static_cast<typename E::Raw>(
          static_cast<U>(static_cast<U>(left) * static_cast<U>(right)));
    }
  }
};

WEFT_INLINE bool IsNegative(float value) {
  return (__builtin_bit_cast(uint32_t, value) >> 31) != 0;
}

WEFT_INLINE bool IsNegative(double value) {
  return (__builtin_bit_cast(uint64_t, value) >> 63) != 0;
}

// Of floats NaN wins, and -0 is below +0.
struct Minimum : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Accumulator Combine(typename E::Accumulator left,
                                                     typename E::Accumulator right) {
    if constexpr (E::kFloating) {
      if (left != left) return left;
      if (left == right) return IsNegative(left) ? left : right;
      return left < right ? left : right;  // `right` if it is NaN
    } else {
      return left < right ? left : right;
    }
  }
};

struct Maximum : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Accumulator Combine(typename E::Accumulator left,
                                                     typename E::Accumulator right) {
    if constexpr (E::kFloating) {
      if (left != left) return left;
      if (left == right) return IsNegative(left) ? right : left;
      return left > right ? left : right;
    } else {
      return left > right ? left : right;
    }
  }
};

// Of integers and booleans.
struct BitAnd : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Raw Combine(typename E::Raw left, typename E::Raw right) {
    return static_cast<typename E::Raw>(left & right);
  }
};

struct BitOr : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Raw Combine(typename E::Raw left, typename E::Raw right) {
    return static_cast<typename E::Raw>(left | right);
  }
};

struct BitXor : Operation {
  template <typename E>
  WEFT_INLINE static typename E::Raw Combine(typename E::Raw left, typename E::Raw right) {
    return static_cast<typename E::Raw>(left ^ right);
  }
};

}  // namespace weft::device
