// Which part of staging each round has in a group of two ranks that both give and get: each writes where it read last.
//
//   PingPongArea stage(bytes);
//   const PingPongArea::Users last = stage.LastUsers(bytes, round);
//   if (last.read_here is through here && last.read_there is through at the peer) part = stage.Take(bytes, {sequence, round});
//
// A rank that reads a line which the peer wrote takes it over: the line lies in its own cache then, and in no other if
// it was only written. To write there costs what any line of one's own costs, where one that the peer has read must be
// taken back from it first. So two ranks with a staging area each write into their own area for a lap, into each
// other's for the next, and so on: every line goes to and fro, once per lap (figures: docs/perf/collectives.md).
//
// A lap is two rounds of an operation, so that one is written while the other is read; every operation begins a
// new one, and with one round it is a lap. All ranks take the same parts in the same order.
//
// Thread-safety: none; under the group's issue or step lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/node/bounce_ring.h"

namespace weft {

// With more, a line is read by several, or comes back from another rank than the one that took it over.
constexpr int kPingPongRanks = 2;

class PingPongArea {
 public:
  using User = BounceRing::User;

  struct Part {
    size_t offset = 0;
    bool swapped = false;  // the ranks write into each other's area
  };

  // Who last used any byte of a part; sequence 0 if nobody did.
  struct Users {
    User read_here;   // the newest round in which this rank read there
    User read_there;  // ... the peer read there
  };

  PingPongArea() = default;

  // `bytes`: of an area, a multiple of 2 * BounceRing::kPartBytes.
  explicit PingPongArea(size_t bytes) : users_(bytes / BounceRing::kPartBytes) {}

  // The last users of the part that Take(bytes, {..., round}) would give. `bytes` is at least 1 and at most half an area.
  Users LastUsers(size_t bytes, size_t round) const;

  // Where round user.round of an operation lies. Rounds are taken from 0 on, all with the same `bytes`.
  Part Take(size_t bytes, User user);

 private:
  struct Use {
    User user;
    uint64_t lap = 0;
  };

  uint64_t LapOf(size_t round) const { return round % 2 == 0 ? lap_ + 1 : lap_; }

  uint64_t lap_ = 0;
  std::vector<Use> users_;  // of every BounceRing::kPartBytes, the last one
};

}  // namespace weft
