#include "comm/node/bounce_ring.h"

#include <algorithm>

namespace weft {
namespace {

constexpr size_t kPartsPerLap = 4;

}  // namespace

size_t BounceRing::NextBegin(size_t bytes, size_t lap_bytes) const {
  const size_t lap = std::min(bytes_, std::max(lap_bytes, kPartsPerLap * WholeParts(bytes)));
  return next_ + bytes <= lap ? next_ : 0;
}

BounceRing::User BounceRing::LastUser(size_t bytes, size_t lap_bytes) const {
  const size_t begin = NextBegin(bytes, lap_bytes);
  User last;
  for (size_t at = begin; at < begin + bytes; at += kPartBytes) {
    last = std::max(last, users_[at / kPartBytes]);
  }
  return last;
}

size_t BounceRing::Take(size_t bytes, size_t lap_bytes, User user) {
  const size_t begin = NextBegin(bytes, lap_bytes);
  for (size_t at = begin; at < begin + bytes; at += kPartBytes)
    users_[at / kPartBytes] = user;
  next_ = begin + WholeParts(bytes);
  return begin;
}

}  // namespace weft
