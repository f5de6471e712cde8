#include "comm/node/ping_pong_area.h"

#include <algorithm>

namespace weft {
namespace {

constexpr size_t kPage = BounceRing::kPartBytes;

size_t OffsetOf(size_t bytes, size_t round) {
  return round % 2 == 0 ? 0 : BounceRing::WholeParts(bytes);
}

}  // namespace

PingPongArea::Users PingPongArea::LastUsers(size_t bytes, size_t round) const {
  const size_t begin = OffsetOf(bytes, round);
  const uint64_t lap = LapOf(round);
  Users last;
  for (size_t at = begin; at < begin + bytes; at += kPage) {
    const Use& use = users_[at / kPage];
    User& of_reader = (lap - use.lap) % 2 == 1 ? last.read_here : last.read_there;
    of_reader = std::max(of_reader, use.user);
  }
  return last;
}

PingPongArea::Part PingPongArea::Take(size_t bytes, User user) {
  const size_t begin = OffsetOf(bytes, user.round);
  lap_ = LapOf(user.round);
  for (size_t at = begin; at < begin + bytes; at += kPage)
    users_[at / kPage] = {user, lap_};
  return {begin, lap_ % 2 == 0};
}

}  // namespace weft
