#include "bench/weft_perf/pattern.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::perf {
namespace {

// Bits of a floating value as a number that grows by one from each value to the next.
int64_t Ordinal(const unsigned char* bytes, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

template <typename Bits>
Pattern::Pattern(const DataKey& key, uint64_t tolerance, const Bits& bits_at)
    : type_(*key.type), tolerance_(tolerance), bytes_(std::min(kPeriod, key.length) * type_.size) {
  for (size_t i = 0; i < bytes_.size() / type_.size; ++i) {
    // Little endian: the low bytes are the element.
    const uint64_t bits = bits_at(i);
    std::memcpy(bytes_.data() + i * type_.size, &bits, type_.size);
  }
}

Pattern Pattern::Input(const DataKey& key, size_t rank) {
  return Pattern(key, 0, [&](size_t i) { return ExactBits(key, rank, i); });
}

Pattern Pattern::Reduced(const DataKey& key) {
  const bool rounds = key.reduction->op == WEFT_AVG && key.type->format == Format::kFloat;
  return Pattern(key, rounds ? 2 : 0, [&](size_t i) { return ReducedBits(key, i); });
}

Pattern Pattern::OrderSensitive(const DataKey& key, size_t rank) {
  return Pattern(key, 0, [&](size_t i) { return RealBits(key, rank, i); });
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
