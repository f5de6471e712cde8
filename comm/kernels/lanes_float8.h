// float8 elements side by side; see lanes.h, whose rules hold here.
//
//   using Lanes = Float8Lanes<E4m3, 8>;    // 32 float8 in memory, four turns of 8 float32 in registers
//
// Conversions are integer arithmetic on every instruction set. The formats are OCP's: e4m3 has no
// infinity and one NaN per sign (0x7f), e5m2 is the upper half of a float16.
#pragma once

#include "comm/kernels/lanes.h"

namespace weft {
namespace {

// What tells the two formats apart. Magnitudes are bits without the sign.
struct E4m3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int32_t kSpecialMin = 0x7f;  // from here on infinity or NaN
  static constexpr int32_t kOverflow = 0x7e;    // 448: what is too large becomes this
  static constexpr uint32_t kNan = 0x7f;        // every NaN is stored so
  static constexpr float kNormalMin = 0x1p-6f;  // below it: counts of kUnit
  static constexpr float kUnit = 0x1p-9f;
};

struct E5m2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr int32_t kSpecialMin = 0x7c;
  static constexpr int32_t kOverflow = 0x7c;  // infinity
  static constexpr uint32_t kNan = 0x7e;
  static constexpr float kNormalMin = 0x1p-14f;
  static constexpr float kUnit = 0x1p-16f;
};

// One float8 per 32-bit lane, zero-extended, and the same as float32. kLanes 1 is plain C++.
template <typename Format, int kLanes>
struct Float8 {
  using Float = Vector<float, kLanes>;
  using Bits = Vector<uint32_t, kLanes>;
  using Signed = Vector<int32_t, kLanes>;  // what is compared: before AVX-512 only these can be

  static constexpr int kDropped = 23 - Format::kMantissaBits;
  static constexpr uint32_t kRebias = uint32_t{127 - Format::kBias} << 23;
  static constexpr uint32_t kBelowTie = (1u << (kDropped - 1)) - 1;
  static constexpr int32_t kNormalMinByte = 1 << Format::kMantissaBits;
  static constexpr int32_t kNormalMinFloat = __builtin_bit_cast(int32_t, Format::kNormalMin);
  // Adding it leaves a count of units in the last bits, rounded to nearest even.
  static constexpr float kCounter = Format::kUnit * 0x1p23f;
  static constexpr uint32_t kCounterBits = __builtin_bit_cast(uint32_t, kCounter);

  WEFT_INLINE static Signed AsSigned(Bits bits) { return __builtin_bit_cast(Signed, bits); }

  // Exact.
  WEFT_INLINE static Float Widen(Bits byte) {
    const Bits magnitude = byte & 0x7fu;
    const Bits normal = (magnitude << kDropped) + kRebias;
    // As if it were normal with one more in the exponent; that one is subtracted.
    const Bits raised = normal + (1u << 23);
    const Float denormal = __builtin_bit_cast(Float, raised) - Format::kNormalMin;
    // Once more the same step ends at the exponent of infinity and NaN.
    const Bits special = AsSigned(magnitude) >= Format::kSpecialMin ? normal + kRebias : normal;
    const Bits bits =
        AsSigned(magnitude) < kNormalMinByte ? __builtin_bit_cast(Bits, denormal) : special;
    return __builtin_bit_cast(Float, bits | (byte & 0x80u) << 24);
  }

  // To nearest, ties to even.
  WEFT_INLINE static Bits Narrow(Float value) {
    const Bits bits = __builtin_bit_cast(Bits, value);
    const Bits magnitude = bits & 0x7fffffffu;
    const Bits rebased = magnitude - kRebias;
    const Bits normal = (rebased + kBelowTie + (rebased >> kDropped & 1u)) >> kDropped;
    const Float counted = __builtin_bit_cast(Float, magnitude) + kCounter;
    const Bits denormal = __builtin_bit_cast(Bits, counted) - kCounterBits;
    const Bits rounded = AsSigned(magnitude) < kNormalMinFloat ? denormal : normal;
    const Bits largest = Bits{} + uint32_t{Format::kOverflow};
    const Bits number = AsSigned(rounded) > Format::kOverflow ? largest : rounded;
    const Bits signed_number = number | (bits >> 24 & 0x80u);
    return value != value ? Bits{} + Format::kNan : signed_number;
  }
};

// float8 in memory, float32 in registers. A register of bytes holds four elements per 32-bit word. It
// is reduced in four turns, each of which takes one byte of every word; no lane is ever moved. All four
// at once would be four times the code, and more registers than there are.
template <typename Format, int kWords>
struct Float8Lanes : FloatLanes<kWords> {
  using Convert = Float8<Format, kWords>;
  using Float = typename Convert::Float;
  using Bits = typename Convert::Bits;
  using Packed = Bits;
  static constexpr int kWidth = 4 * kWords;
  static constexpr int kElementBytes = 1;
  static constexpr int kTurns = 4;

  WEFT_INLINE static Float Load(const char* from, int turn) {
    return Convert::Widen(LoadAs<Bits>(from) >> 8 * turn & 0xffu);
  }

  WEFT_INLINE static Packed Pack(Float value, int turn) {
    return Convert::Narrow(value) << 8 * turn;
  }

  WEFT_INLINE static void Store(char* to, Packed words) { StoreAs<Packed>(to, words); }
};

// The plain form.
template <typename Format>
struct Float8Lanes<Format, 0> : FloatLanes<1> {
  static constexpr int kElementBytes = 1;
  using Convert = Float8<Format, 1>;

  WEFT_INLINE static Value Load(const char* from) { return Convert::Widen(LoadAs<uint8_t>(from)); }

  WEFT_INLINE static void Store(char* to, Value value) {
    StoreAs(to, static_cast<uint8_t>(Convert::Narrow(value)));
  }
};

// float8 in memory, int8 of the same order in registers, -0 just below +0: all that min and max need.
// NaNs become the one that beats every number.
template <typename Format, bool kMinimum, int kWidthOf>
struct Float8KeyLanes : IntegerLanes<int8_t, kWidthOf> {
  using Value = Vector<int8_t, kWidthOf>;
  static constexpr int8_t kMagnitude = 0x7f;
  static constexpr int8_t kNanKey = kMinimum ? -128 : 127;
  // Above it is NaN: e5m2's infinity is a number here.
  static constexpr int8_t kNumberMax = Format::kOverflow;

  // Of numbers; its own inverse.
  WEFT_INLINE static Value Swap(Value bits) {
    const auto below = static_cast<Value>(bits < 0 ? Value{} + kMagnitude : Value{});
    return static_cast<Value>(bits ^ below);
  }

  WEFT_INLINE static Value Load(const char* from) {
    const Value bits = LoadAs<Value>(from);
    const Value magnitude = static_cast<Value>(bits & kMagnitude);
    return static_cast<Value>(magnitude > kNumberMax ? Value{} + kNanKey : Swap(bits));
  }

  WEFT_INLINE static void Store(char* to, Value key) {
    constexpr int8_t kNan = Format::kNan;
    StoreAs(to, static_cast<Value>(key == kNanKey ? Value{} + kNan : Swap(key)));
  }
};

}  // namespace
}  // namespace weft
