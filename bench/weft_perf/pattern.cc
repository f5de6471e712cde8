#include "bench/weft_perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace weft::perf {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The values behind a pattern, as numbers.
class Values {
 public:
  explicit Values(const DataKey& key) : key_(key), type_(*key.type) {}

  uint64_t InputBits(int rank, size_t index) const;
  uint64_t ReducedBits(size_t index) const;

 private:
  uint64_t Random(int rank, size_t index) const {
    return Mix(Mix(key_.seed * 0x10001 + static_cast<uint64_t>(rank) + 1) + index);
  }

  // The ranks in another order at every index: contributions that only a few ranks may make come
  // from all of them in turn.
  int Turn(int rank, size_t index) const {
    return static_cast<int>((static_cast<uint64_t>(rank) + Mix(key_.seed + index) % 65536) %
                            static_cast<uint64_t>(key_.ranks));
  }

  weft_op_t op() const { return key_.reduction->op; }

  bool is_sum() const { return op() == WEFT_SUM || op() == WEFT_AVG; }

  double Float(int rank, size_t index) const;
  double FloatSummand(int rank, size_t index) const;
  double FloatFactor(int rank, size_t index) const;
  int64_t Bounded(int rank, size_t index, int64_t limit) const;
  uint64_t Integer(int rank, size_t index) const;
  double ReducedFloat(size_t index) const;
  uint64_t ReducedInteger(size_t index) const;
  uint64_t Extend(uint64_t bits) const;

  const DataKey& key_;
  const ElementType& type_;
};

// A random integer such that the magnitudes of all ranks together do not exceed `limit`.
int64_t Values::Bounded(int rank, size_t index, int64_t limit) const {
  const int64_t each = std::max<int64_t>(1, limit / key_.ranks);
  if (Turn(rank, index) >= limit / each) return 0;
  const uint64_t random = Random(rank, index);
  if (type_.format == Format::kUnsigned) return static_cast<int64_t>(random % (each + 1));
  return static_cast<int64_t>(random % (2 * each + 1)) - each;
}

// Integers below the precision, times a power of two that is the same for all ranks.
double Values::FloatSummand(int rank, size_t index) const {
  const int64_t limit = int64_t{1} << std::min(type_.mantissa_bits + 1, 24);
  const int scale = static_cast<int>(Mix(key_.seed ^ index) % 7) - 3;
  return std::ldexp(static_cast<double>(Bounded(rank, index, limit)), scale);
}

// One rank's small integer times powers of two of at most eight other ranks: exact in any order,
// and within the range of half.
double Values::FloatFactor(int rank, size_t index) const {
  const int turn = Turn(rank, index);
  const uint64_t random = Random(rank, index);
  const double sign = (random & 1) != 0 ? -1 : 1;
  if (turn == 0) return sign * static_cast<double>(1 + (random >> 8) % 127);
  if (turn > 8) return sign;
  return sign * std::ldexp(1.0, static_cast<int>((random >> 8) % 3) - 1);
}

double Values::Float(int rank, size_t index) const {
  if (is_sum()) return FloatSummand(rank, index);
  if (op() == WEFT_PROD) return FloatFactor(rank, index);
  const uint64_t random = Random(rank, index);
  const int scale = static_cast<int>((random >> 32) % 7) - 3;
  return std::ldexp(static_cast<double>(random % 201) - 100, scale);
}

// The bits of an element as a 64-bit integer of the same value.
uint64_t Values::Extend(uint64_t bits) const {
  const unsigned unused = 64 - 8 * static_cast<unsigned>(type_.size);
  if (type_.format == Format::kSigned) {
    return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  return (bits << unused) >> unused;
}

uint64_t Values::Integer(int rank, size_t index) const {
  // The quotient of an average depends on where the sum wraps, so averaged sums do not wrap.
  if (op() == WEFT_AVG) {
    return static_cast<uint64_t>(Bounded(rank, index, type_.size == 1 ? 127 : 1 << 20));
  }
  return Extend(Random(rank, index));
}

uint64_t Values::InputBits(int rank, size_t index) const {
  if (key_.reduction == nullptr) return Random(rank, index);
  if (type_.format == Format::kFloat) return EncodeFloat(Float(rank, index), type_);
  return Integer(rank, index);
}

double Values::ReducedFloat(size_t index) const {
  double result = Float(0, index);
  for (int rank = 1; rank < key_.ranks; ++rank) {
    const double value = Float(rank, index);
    switch (op()) {
      case WEFT_SUM:
      case WEFT_AVG:
        result += value;
        break;
      case WEFT_PROD:
        result *= value;
        break;
      case WEFT_MAX:
        result = std::max(result, value);
        break;
      case WEFT_MIN:
        result = std::min(result, value);
        break;
    }
  }
  return op() == WEFT_AVG ? result / key_.ranks : result;
}

uint64_t Values::ReducedInteger(size_t index) const {
  const bool is_signed = type_.format == Format::kSigned;
  const auto less = [is_signed](uint64_t a, uint64_t b) {
    return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  uint64_t result = Integer(0, index);
  for (int rank = 1; rank < key_.ranks; ++rank) {
    const uint64_t value = Integer(rank, index);
    switch (op()) {
      case WEFT_SUM:
      case WEFT_AVG:
        result += value;
        break;
      case WEFT_PROD:
        result *= value;
        break;
      case WEFT_MAX:
        result = less(result, value) ? value : result;
        break;
      case WEFT_MIN:
        result = less(value, result) ? value : result;
        break;
    }
  }
  if (op() == WEFT_AVG) {
    result = static_cast<uint64_t>(static_cast<int64_t>(result) / key_.ranks);
  }
  return result;
}

uint64_t Values::ReducedBits(size_t index) const {
  if (type_.format == Format::kFloat) return EncodeFloat(ReducedFloat(index), type_);
  return ReducedInteger(index);
}

// Bits of a floating value as a number that grows by one from each value to the next.
int64_t Ordinal(const unsigned char* bytes, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

Pattern::Pattern(const DataKey& key, uint64_t tolerance)
    : type_(*key.type), tolerance_(tolerance), bytes_(std::min(kPeriod, key.length) * type_.size) {}

void Pattern::Set(size_t index, uint64_t bits) {
  // Little endian: the low bytes are the element.
  std::memcpy(bytes_.data() + index * type_.size, &bits, type_.size);
}

Pattern Pattern::Input(const DataKey& key, int rank) {
  Pattern pattern(key, 0);
  const Values values(key);
  for (size_t i = 0; i < pattern.held(); ++i)
    pattern.Set(i, values.InputBits(rank, i));
  return pattern;
}

Pattern Pattern::Reduced(const DataKey& key) {
  const bool rounds = key.reduction->op == WEFT_AVG && key.type->format == Format::kFloat;
  Pattern pattern(key, rounds ? 2 : 0);
  const Values values(key);
  for (size_t i = 0; i < pattern.held(); ++i)
    pattern.Set(i, values.ReducedBits(i));
  return pattern;
}

void Pattern::Fill(void* out, size_t first, size_t count) const {
  auto* to = static_cast<unsigned char*>(out);
  for (size_t from = first % kPeriod; count > 0; from = 0) {
    const size_t run = std::min(count, kPeriod - from);
    std::memcpy(to, bytes_.data() + from * type_.size, run * type_.size);
    to += run * type_.size;
    count -= run;
  }
}

bool Pattern::Close(const unsigned char* have, const unsigned char* want) const {
  if (std::memcmp(have, want, type_.size) == 0) return true;
  if (tolerance_ == 0) return false;
  const int64_t distance = Ordinal(have, type_.size) - Ordinal(want, type_.size);
  return static_cast<uint64_t>(std::llabs(distance)) <= tolerance_;
}

size_t Pattern::CountWrong(const void* data, size_t first, size_t count) const {
  const auto* have = static_cast<const unsigned char*>(data);
  size_t wrong = 0;
  for (size_t from = first % kPeriod; count > 0; from = 0) {
    const size_t run = std::min(count, kPeriod - from);
    const unsigned char* want = bytes_.data() + from * type_.size;
    if (std::memcmp(have, want, run * type_.size) != 0) {
      for (size_t i = 0; i < run; ++i) {
        if (!Close(have + i * type_.size, want + i * type_.size)) ++wrong;
      }
    }
    have += run * type_.size;
    count -= run;
  }
  return wrong;
}

size_t CountChangedCanaries(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  return size - static_cast<size_t>(std::count(bytes, bytes + size, kCanary));
}

}  // namespace weft::perf
