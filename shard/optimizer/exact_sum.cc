#include "shard/optimizer/exact_sum.h"

#include <bit>
#include <cstddef>
#include <limits>

namespace weft {
namespace {

constexpr int kLimbBits = 32;
constexpr uint64_t kLimbMask = 0xffffffffu;
constexpr int kMantissaBits = 52;
constexpr uint64_t kMantissaMask = (uint64_t{1} << kMantissaBits) - 1;
constexpr uint64_t kExponentMax = 0x7ff;
constexpr int kNanWord = ExactSum::kLimbs;
constexpr int kInfinityWord = kNanWord + 1;
constexpr int kMinusInfinityWord = kNanWord + 2;

// Wraps instead of overflowing: words may be anything.
int64_t Plus(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
}

// Brings every limb but the last into [0, 2^32).
void CarryLimbs(ExactSum::Words& words) {
  int64_t carry = 0;
  for (int i = 0; i < ExactSum::kLimbs - 1; ++i) {
    const int64_t limb = Plus(words[i], carry);
    words[i] = static_cast<int64_t>(static_cast<uint64_t>(limb) & kLimbMask);
    carry = limb >> kLimbBits;
  }
  words[ExactSum::kLimbs - 1] = Plus(words[ExactSum::kLimbs - 1], carry);
}

// The number of the highest bit that is set in carried limbs, which are not negative; -1 for zero.
int HighestBit(const ExactSum::Words& words) {
  for (int i = ExactSum::kLimbs - 1; i >= 0; --i) {
    if (words[i] == 0) continue;
    return kLimbBits * i + 63 - std::countl_zero(static_cast<uint64_t>(words[i]));
  }
  return -1;
}

// Bits [first, first + 53) of carried limbs below 2^32.
uint64_t MantissaAt(const ExactSum::Words& words, int first) {
  const int limb = first / kLimbBits;
  unsigned __int128 bits = 0;
  for (int i = 2; i >= 0; --i) {
    const int at = limb + i;
    bits = bits << kLimbBits | static_cast<uint64_t>(at < ExactSum::kLimbs ? words[at] : 0);
  }
  return static_cast<uint64_t>(bits >> (first % kLimbBits)) & (2 * kMantissaMask + 1);
}

bool BitAt(const ExactSum::Words& words, int bit) {
  return (words[bit / kLimbBits] >> (bit % kLimbBits) & 1) != 0;
}

bool AnyBitBelow(const ExactSum::Words& words, int end) {
  const int whole = end / kLimbBits;
  for (int i = 0; i < whole; ++i) {
    if (words[i] != 0) return true;
  }
  return (words[whole] & ((int64_t{1} << (end % kLimbBits)) - 1)) != 0;
}

// The bits of the double nearest to carried limbs that are not negative, ties to even.
uint64_t RoundedBits(const ExactSum::Words& words) {
  const int highest = HighestBit(words);
  if (highest < kMantissaBits) {  // zero or denormal: bit 0 is the least denormal
    return static_cast<uint64_t>(words[1]) << kLimbBits | static_cast<uint64_t>(words[0]);
  }
  const int first = highest - kMantissaBits;
  if (first + 1 >= static_cast<int>(kExponentMax)) return kExponentMax << kMantissaBits;
  const uint64_t mantissa = MantissaAt(words, first);
  // The leading one of the mantissa is added to the exponent, which makes it first + 1; so is the
  // carry of a mantissa that is rounded up to the next power of two, or to infinity.
  const uint64_t bits = (static_cast<uint64_t>(first) << kMantissaBits) + mantissa;
  const bool half = first > 0 && BitAt(words, first - 1);
  const bool up = half && ((mantissa & 1) != 0 || AnyBitBelow(words, first - 1));
  return bits + (up ? 1 : 0);
}

}  // namespace

ExactSum::ExactSum(const Words& words) : words_(words) {
  Carry();
}

void ExactSum::Add(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t exponent = bits >> kMantissaBits & kExponentMax;
  if (exponent == kExponentMax) return AddUnusual(value);
  const uint64_t mantissa =
      (bits & kMantissaMask) | (exponent != 0 ? kMantissaMask + 1 : uint64_t{0});
  const uint64_t position = exponent != 0 ? exponent - 1 : 0;
  const auto wide = static_cast<unsigned __int128>(mantissa) << (position % kLimbBits);
  const int64_t sign = static_cast<int64_t>(bits) >> 63;  // 0 or -1
  int64_t* const limb = &words_[position / kLimbBits];
  for (int i = 0; i < 3; ++i) {
    const auto part =
        static_cast<int64_t>(static_cast<uint64_t>(wide >> (kLimbBits * i)) & kLimbMask);
    limb[i] += (part ^ sign) - sign;
  }
  if (++additions_ == kAdditionsMax) Carry();
}

void ExactSum::AddUnusual(double value) {
  if (value != value) {
    ++words_[kNanWord];
  } else {
    ++words_[value > 0 ? kInfinityWord : kMinusInfinityWord];
  }
}

void ExactSum::Carry() {
  CarryLimbs(words_);
  additions_ = 0;
}

void ExactSum::Merge(const ExactSum& other) {
  const Words words = other.words();
  for (size_t i = 0; i < words.size(); ++i)
    words_[i] = Plus(words_[i], words[i]);
  if (++additions_ == kAdditionsMax) Carry();
}

ExactSum::Words ExactSum::words() const {
  Words words = words_;
  CarryLimbs(words);
  return words;
}

double ExactSum::Value() const {
  const bool up = words_[kInfinityWord] != 0;
  const bool down = words_[kMinusInfinityWord] != 0;
  if (words_[kNanWord] != 0 || (up && down)) return std::numeric_limits<double>::quiet_NaN();
  if (up || down) return (up ? 1 : -1) * std::numeric_limits<double>::infinity();
  Words words = this->words();
  const bool negative = words[kLimbs - 1] < 0;
  if (negative) {
    for (int i = 0; i < kLimbs; ++i)
      words[i] = static_cast<int64_t>(-static_cast<uint64_t>(words[i]));
    CarryLimbs(words);
  }
  return std::bit_cast<double>(RoundedBits(words) | static_cast<uint64_t>(negative) << 63);
}

}  // namespace weft
