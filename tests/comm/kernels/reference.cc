#include "tests/comm/kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinite = true;  // if not, the largest exponent is of numbers, and NaN is all ones
};

Format FormatOf(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_FLOAT8_E4M3:
      return {4, 3, false};
    case WEFT_FLOAT8_E5M2:
      return {5, 2};
    case WEFT_FLOAT16:
      return {5, 10};
    case WEFT_BFLOAT16:
      return {8, 7};
    case WEFT_FLOAT32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

double DecodeFormat(Format format, uint64_t bits) {
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa_bits) - 1;
  const int exponent_max = (1 << format.exponent_bits) - 1;
  const int bias = exponent_max / 2;
  const auto mantissa = static_cast<double>(bits & mantissa_mask);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & exponent_max;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits) & 1) != 0;
  double magnitude;
  if (!format.infinite && exponent == exponent_max && (bits & mantissa_mask) == mantissa_mask) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (format.infinite && exponent == exponent_max) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    const double one = std::ldexp(1.0, format.mantissa_bits);
    magnitude = std::ldexp(mantissa + one, exponent - bias - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// All finite magnitudes of a format of 8 or 16 bits; the index is the bits.
const std::vector<float>& FiniteMagnitudes(weft_dtype_t dtype) {
  static const auto make = [](weft_dtype_t of) {
    std::vector<float> values;
    for (uint64_t bits = 0; std::isfinite(DecodeFormat(FormatOf(of), bits)); ++bits) {
      values.push_back(static_cast<float>(DecodeFormat(FormatOf(of), bits)));
    }
    return values;
  };
  static const std::map<weft_dtype_t, std::vector<float>> all = {
      {WEFT_FLOAT16, make(WEFT_FLOAT16)},
      {WEFT_BFLOAT16, make(WEFT_BFLOAT16)},
      {WEFT_FLOAT8_E4M3, make(WEFT_FLOAT8_E4M3)},
      {WEFT_FLOAT8_E5M2, make(WEFT_FLOAT8_E5M2)}};
  return all.at(dtype);
}

// Between neighbours, distances are compared in float64, where they are exact. Above the largest
// finite value stands one more step of the same size, which is infinity, or "too large".
uint64_t EncodeMagnitude(weft_dtype_t dtype, float magnitude) {
  const std::vector<float>& values = FiniteMagnitudes(dtype);
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  const auto index = static_cast<uint64_t>(above - values.begin());
  if (above != values.end() && *above == magnitude) return index;
  const double low = values[index - 1];
  const double high = above != values.end() ? double{*above} : 2 * low - values[index - 2];
  const double to_low = magnitude - low;
  const double to_high = high - magnitude;
  if (to_low != to_high) return to_low < to_high ? index - 1 : index;
  return index % 2 == 0 ? index : index - 1;
}

template <typename T>
T Tree(weft_op_t op, const T* values, size_t count, T (*combine)(weft_op_t, T, T)) {
  if (count == 1) return values[0];
  size_t left = 1;
  while (left * 2 < count)
    left *= 2;
  const T left_value = Tree(op, values, left, combine);
  return combine(op, left_value, Tree(op, values + left, count - left, combine));
}

// What a stage takes, does and gives.
struct StageRules {
  weft_dtype_t source;
  weft_dtype_t result;
  bool scales;
  bool divides;
  std::vector<uint8_t> merges;
};

StageRules RulesOf(ReduceStage stage, weft_dtype_t dtype, weft_op_t op,
                   const std::vector<uint8_t>& merges) {
  const bool first = stage == ReduceStage::kWhole || stage == ReduceStage::kFirst;
  const bool last = stage == ReduceStage::kWhole || stage == ReduceStage::kLast;
  const bool compares = op == WEFT_MIN || op == WEFT_MAX;
  const bool widens = IsFloatingDtype(dtype) && DtypeSize(dtype) < 4 && !compares;
  const weft_dtype_t accumulator = widens ? WEFT_FLOAT32 : dtype;
  return {first ? dtype : accumulator, last ? dtype : accumulator, first && op == kOpPremulSum,
          last && op == WEFT_AVG, merges};
}

// A tree as ReduceArguments::merges describes it, read from its end: there the last join has its right operand.
template <typename T>
class MergedTree {
 public:
  MergedTree(weft_op_t op, const T* values, std::vector<uint8_t> merges,
             T (*combine)(weft_op_t, T, T))
      : op_(op), values_(values), merges_(std::move(merges)), combine_(combine) {}

  // The result that ends with the last source that is not taken.
  T Take() {
    if (merges_.back() == 0) {
      merges_.pop_back();
      return values_[merges_.size()];
    }
    --merges_.back();
    const T right = Take();
    const T left = Take();
    return combine_(op_, left, right);
  }

 private:
  weft_op_t op_;
  const T* values_;
  std::vector<uint8_t> merges_;
  T (*combine_)(weft_op_t, T, T);
};

template <typename T>
T TreeOf(const StageRules& rules, weft_op_t op, const std::vector<T>& values,
         T (*combine)(weft_op_t, T, T)) {
  if (rules.merges.empty()) return Tree<T>(op, values.data(), values.size(), combine);
  return MergedTree<T>(op, values.data(), rules.merges, combine).Take();
}

template <typename T>
T CombineFloats(weft_op_t op, T left, T right) {
  if (op == WEFT_SUM || op == WEFT_AVG || op == kOpPremulSum) return left + right;
  if (op == WEFT_PROD) return left * right;
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
  if (left == right) return std::signbit(left) == (op == WEFT_MIN) ? left : right;
  return (left < right) == (op == WEFT_MIN) ? left : right;
}

// T is the element type; unsigned arithmetic wraps, in 64 bits as in fewer.
template <typename T>
T CombineIntegers(weft_op_t op, T left, T right) {
  const uint64_t left_bits = static_cast<std::make_unsigned_t<T>>(left);
  const uint64_t right_bits = static_cast<std::make_unsigned_t<T>>(right);
  switch (static_cast<int>(op)) {
    case WEFT_SUM:
    case WEFT_AVG:
    case kOpPremulSum:
      return static_cast<T>(left_bits + right_bits);
    case WEFT_PROD:
      return static_cast<T>(left_bits * right_bits);
    case WEFT_BIT_AND:
      return static_cast<T>(left_bits & right_bits);
    case WEFT_BIT_OR:
      return static_cast<T>(left_bits | right_bits);
    case WEFT_BIT_XOR:
      return static_cast<T>(left_bits ^ right_bits);
    default:
      break;
  }
  return op == WEFT_MIN ? std::min(left, right) : std::max(left, right);
}

template <typename T>
uint64_t ReduceIntegers(const StageRules& rules, weft_op_t op, const Elements& sources,
                        int64_t divisor, const Elements& factors) {
  std::vector<T> values;
  for (size_t s = 0; s < sources.size(); ++s) {
    values.push_back(static_cast<T>(rules.scales ? sources[s] * factors[s] : sources[s]));
  }
  T result = TreeOf<T>(rules, op, values, CombineIntegers<T>);
  if (rules.divides && std::is_signed_v<T>) {
    result = static_cast<T>(static_cast<int64_t>(result) / divisor);
  } else if (rules.divides) {
    result = static_cast<T>(static_cast<uint64_t>(result) / static_cast<uint64_t>(divisor));
  }
  return static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(result));
}

// By counting the true ones.
uint64_t ReduceBools(weft_op_t op, const Elements& sources) {
  size_t trues = 0;
  for (const uint64_t bits : sources)
    trues += bits != 0 ? 1 : 0;
  if (op == WEFT_SUM || op == WEFT_MAX || op == WEFT_BIT_OR) return trues > 0 ? 1 : 0;
  if (op == WEFT_BIT_XOR) return trues % 2;
  return trues == sources.size() ? 1 : 0;
}

uint64_t ReduceDoubles(const StageRules& rules, weft_op_t op, const Elements& sources,
                       int64_t divisor, const Elements& factors) {
  std::vector<double> values;
  for (size_t s = 0; s < sources.size(); ++s) {
    values.push_back(DecodeFormat(FormatOf(WEFT_FLOAT64), sources[s]));
    if (rules.scales) values[s] *= std::bit_cast<double>(factors[s]);
  }
  double result = TreeOf<double>(rules, op, values, CombineFloats<double>);
  if (rules.divides) result /= static_cast<double>(divisor);
  return std::isnan(result) ? QuietNan(WEFT_FLOAT64) : std::bit_cast<uint64_t>(result);
}

uint64_t ReduceFloats(const StageRules& rules, weft_op_t op, const Elements& sources,
                      int64_t divisor, const Elements& factors) {
  std::vector<float> values;
  for (size_t s = 0; s < sources.size(); ++s) {
    values.push_back(DecodeFloat(rules.source, sources[s]));
    if (rules.scales) values[s] *= std::bit_cast<float>(static_cast<uint32_t>(factors[s]));
  }
  float result = TreeOf<float>(rules, op, values, CombineFloats<float>);
  if (rules.divides) result /= static_cast<float>(divisor);
  return EncodeFloat(rules.result, result);
}

}  // namespace

std::vector<weft_op_t> OpsOf(weft_dtype_t dtype) {
  std::vector<weft_op_t> ops = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN};
  if (dtype != WEFT_BOOL) ops.insert(ops.end(), {WEFT_AVG, kOpPremulSum});
  if (!IsFloatingDtype(dtype)) ops.insert(ops.end(), {WEFT_BIT_AND, WEFT_BIT_OR, WEFT_BIT_XOR});
  return ops;
}

float DecodeFloat(weft_dtype_t dtype, uint64_t bits) {
  return static_cast<float>(DecodeFormat(FormatOf(dtype), bits));
}

uint64_t EncodeFloat(weft_dtype_t dtype, float value) {
  if (std::isnan(value)) return QuietNan(dtype);
  if (dtype == WEFT_FLOAT32) return std::bit_cast<uint32_t>(value);
  const uint64_t too_large = FiniteMagnitudes(dtype).size() - (FormatOf(dtype).infinite ? 0 : 1);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (DtypeSize(dtype) * 8 - 1) : 0;
  if (std::isinf(value)) return sign | too_large;
  return sign | std::min(too_large, EncodeMagnitude(dtype, std::fabs(value)));
}

uint64_t QuietNan(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_FLOAT8_E4M3:
      return 0x7f;
    case WEFT_FLOAT8_E5M2:
      return 0x7e;
    case WEFT_FLOAT16:
      return 0x7e00;
    case WEFT_BFLOAT16:
      return 0x7fc0;
    case WEFT_FLOAT32:
      return 0x7fc00000;
    default:
      return 0x7ff8000000000000;
  }
}

uint64_t ReduceReference(weft_dtype_t dtype, weft_op_t op, const Elements& sources, int64_t divisor,
                         const Elements& factors) {
  return ReduceStageReference(ReduceStage::kWhole, dtype, op, sources, divisor, factors);
}

uint64_t ReduceStageReference(ReduceStage stage, weft_dtype_t dtype, weft_op_t op,
                              const Elements& sources, int64_t divisor, const Elements& factors,
                              const std::vector<uint8_t>& merges) {
  const StageRules rules = RulesOf(stage, dtype, op, merges);
  switch (dtype) {
    case WEFT_INT8:
      return ReduceIntegers<int8_t>(rules, op, sources, divisor, factors);
    case WEFT_UINT8:
      return ReduceIntegers<uint8_t>(rules, op, sources, divisor, factors);
    case WEFT_INT32:
      return ReduceIntegers<int32_t>(rules, op, sources, divisor, factors);
    case WEFT_UINT32:
      return ReduceIntegers<uint32_t>(rules, op, sources, divisor, factors);
    case WEFT_INT64:
      return ReduceIntegers<int64_t>(rules, op, sources, divisor, factors);
    case WEFT_UINT64:
      return ReduceIntegers<uint64_t>(rules, op, sources, divisor, factors);
    case WEFT_FLOAT64:
      return ReduceDoubles(rules, op, sources, divisor, factors);
    case WEFT_BOOL:
      return ReduceBools(op, sources);
    default:
      return ReduceFloats(rules, op, sources, divisor, factors);
  }
}

Elements Factors(weft_dtype_t dtype, size_t count) {
  constexpr float kFloats[] = {0.1f, -3.0f, 0x1.8p-9f, 1e10f, -0.0f, 1.0f, 0x1.fffffep-1f};
  Elements factors;
  for (size_t s = 0; s < count; ++s) {
    const float factor = kFloats[s % std::size(kFloats)];
    if (dtype == WEFT_FLOAT64) {
      factors.push_back(std::bit_cast<uint64_t>(double{factor} / 3));
    } else if (IsFloatingDtype(dtype)) {
      factors.push_back(std::bit_cast<uint32_t>(factor));
    } else {
      const uint64_t bits = 0xfedcba9876543211 * (s + 1);
      factors.push_back(
          DtypeSize(dtype) == 8 ? bits : bits & ((uint64_t{1} << (8 * DtypeSize(dtype))) - 1));
    }
  }
  return factors;
}

std::vector<char> PackElements(weft_dtype_t dtype, const Elements& elements) {
  const size_t size = DtypeSize(dtype);
  std::vector<char> bytes(elements.size() * size);
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(bytes.data() + i * size, &elements[i], size);  // little endian, as the kernels
  }
  return bytes;
}

Elements Unpack(weft_dtype_t dtype, const std::vector<char>& bytes) {
  const size_t size = DtypeSize(dtype);
  Elements elements(bytes.size() / size, 0);
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(&elements[i], bytes.data() + i * size, size);
  }
  return elements;
}

Elements SpecialElements(weft_dtype_t dtype) {
  const int width = static_cast<int>(DtypeSize(dtype)) * 8;
  const uint64_t sign = uint64_t{1} << (width - 1);
  Elements magnitudes;
  if (IsFloatingDtype(dtype)) {
    const Format format = FormatOf(dtype);
    const uint64_t one = uint64_t{1} << format.mantissa_bits;
    const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint64_t unit = (infinity >> 1) & ~(one - 1);  // 1.0 or 0.5 and their neighbours
    magnitudes = {0,
                  1,
                  2,
                  one - 1,
                  one,
                  one + 1,
                  unit - 1,
                  unit,
                  unit + 1,
                  unit + one,
                  infinity - 1,
                  infinity - 2,
                  infinity,
                  infinity + 1,
                  infinity + one / 2,
                  infinity + one - 1};
  } else if (dtype == WEFT_BOOL) {
    magnitudes = {0, 1, 2, 0x7f};
  } else {
    magnitudes = {0, 1, 2, 3, 7, sign - 1, sign - 2, sign / 2, sign / 2 + 1};
  }
  Elements elements = magnitudes;
  for (const uint64_t magnitude : magnitudes)
    elements.push_back(magnitude | sign);
  return elements;
}

Elements RandomElements(weft_dtype_t dtype, size_t count, std::mt19937_64& random) {
  const Elements special = SpecialElements(dtype);
  Elements elements(count);
  for (uint64_t& bits : elements) {
    const uint64_t kind = random() % 20;
    if (kind == 0) {
      bits = special[random() % special.size()];
    } else if (kind < 10 || !IsFloatingDtype(dtype)) {
      bits = random();
      if (DtypeSize(dtype) < 8) bits &= (uint64_t{1} << (8 * DtypeSize(dtype))) - 1;
    } else {
      const double value = std::ldexp(static_cast<double>(random() % 100000) - 30000, -16);
      bits = dtype == WEFT_FLOAT64 ? std::bit_cast<uint64_t>(value)
                                   : EncodeFloat(dtype, static_cast<float>(value));
    }
  }
  return elements;
}

std::vector<uint8_t> RandomMerges(int count, std::mt19937_64& random) {
  std::vector<uint8_t> merges(count, 0);
  const uint64_t kind = random() % 6;
  int waiting = 0;
  for (int s = 0; s < count; ++s) {
    ++waiting;
    int joins = static_cast<int>(random() % static_cast<uint64_t>(std::min(waiting, 4)));
    if (kind == 0) joins = 0;
    if (kind == 1 || s == count - 1) joins = waiting - 1;
    merges[s] = static_cast<uint8_t>(joins);
    waiting -= joins;
  }
  return merges;
}

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= BestIsa()) isas.push_back(isa);
  }
  return isas;
}

Elements RunKernel(Isa isa, weft_dtype_t dtype, weft_op_t op, const std::vector<Elements>& sources,
                   int64_t divisor, const Elements& factors) {
  std::vector<std::vector<char>> packed;
  std::vector<const void*> pointers;
  packed.reserve(sources.size());
  pointers.reserve(sources.size());
  for (const Elements& elements : sources)
    packed.push_back(PackElements(dtype, elements));
  for (const std::vector<char>& bytes : packed)
    pointers.push_back(bytes.data());
  std::vector<char> result(packed[0].size());
  void* destination = result.data();
  FindReduceKernel(isa, dtype, op)({pointers.data(), static_cast<int>(pointers.size()),
                                    &destination, 1, sources[0].size(), divisor, factors.data()});
  return Unpack(dtype, result);
}

uint32_t TestSeed() {
  const int32_t seed = GTEST_FLAG_GET(random_seed);
  return seed == 0 ? 1u : static_cast<uint32_t>(seed);
}

}  // namespace weft
