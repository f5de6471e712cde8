// Which part of the ranks' staging each round of each operation has.
//
//   BounceRing ring(tuning.stage_ring_bytes);
//   if (ring.LastUser(bytes, lap) has been read by all peers) offset = ring.Take(bytes, lap, {sequence, round});
//
// Staging is a ring that is taken from in order, and a lap of it is longer than a core's cache on purpose, where
// every rank has a core: a part comes round again when both its writer's and its readers' second-level caches have
// let go of it, and to write it costs a third of what it costs to take lines back from a peer that has just read
// them. Ranks that share cores find lines in the cache that both have, and take short laps (docs/perf/collectives.md).
// All ranks take the same parts in the same order, so that they know each other's offsets.
//
// Thread-safety: none; under the group's issue or step lock.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class BounceRing {
 public:
  // Parts are multiples of this.
  static constexpr size_t kPartBytes = 4096;

  // A round of an operation; sequence 0: of none.
  struct User {
    uint64_t sequence = 0;
    size_t round = 0;
    // The newer one is greater.
    // NOLINTNEXTLINE(modernize-use-nullptr): clang 14 takes what the compiler compares with 0 for a pointer
    auto operator<=>(const User&) const = default;
  };

  // `bytes`, rounded up to whole parts.
  static constexpr size_t WholeParts(size_t bytes) {
    return (bytes + kPartBytes - 1) / kPartBytes * kPartBytes;
  }

  BounceRing() = default;

  // `bytes`: a multiple of kPartBytes.
  explicit BounceRing(size_t bytes) : bytes_(bytes), users_(bytes / kPartBytes) {}

  // The newest user of what the next Take(bytes, lap_bytes) would give. When nobody reads for it any more, nobody
  // does for older ones. `bytes` is at least 1 and at most a quarter of the ring.
  User LastUser(size_t bytes, size_t lap_bytes) const;

  // The next `bytes`, as an offset. LastUser(bytes, lap_bytes) must be through. Begins again after `lap_bytes`, or
  // after four parts of this size if that is more.
  size_t Take(size_t bytes, size_t lap_bytes, User user);

 private:
  // Where the next part begins.
  size_t NextBegin(size_t bytes, size_t lap_bytes) const;

  size_t bytes_ = 0;
  size_t next_ = 0;
  std::vector<User> users_;  // of every kPartBytes, the last one
};

}  // namespace weft
