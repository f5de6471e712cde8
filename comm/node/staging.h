// A rank's staging: the block of its heap that data of private buffers goes through, and the order in which operations
// use it up.
//
//   if (absl::Status made = state.staging.Make(state); !made.ok()) ...      // once per group, when first needed
//
//   StagingParts parts(bytes, ping_pong);                                   // of an operation, one part for each round
//   StagingParts::Users last = parts.LastUsers(state, round);               // all must be through with it
//   parts.Take(state, sequence, round);
//   char* mine = parts.Of(state, state.rank, round, &error);
//
// There are three areas: a bounce-buffer ring for rounds of staged operations, a ring of slots from 4 KiB on, and for two
// ranks an area for rounds that go to and fro. Which of them holds a part, and at which rank, is known here only: all
// ranks take the same parts in the same order, and so know each other's places.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "comm/node/bounce_ring.h"
#include "comm/node/ping_pong_area.h"

namespace weft {

struct NodeState;

class Staging {
 public:
  Staging() = default;

  // Takes the block from the heap and says where it is; nothing if that has been done. OUT_OF_MEMORY: nothing has
  // happened.
  absl::Status Make(const NodeState& state);

  // This rank's, nullptr before Make.
  char* base() const { return base_; }

  // As mapped here. nullptr and *error set if the rank announced something outside its heap.
  char* Of(const NodeState& state, int rank, absl::Status* error);

  // All ranks' are known: false and *error set as above.
  bool FindAll(const NodeState& state, absl::Status* error);

  // As above, after FindAll.
  char* Known(int rank) const { return bases_[static_cast<size_t>(rank)]; }

  // A slot of `bytes` in the ring: the operation that used its place last, and the offset where it begins.
  uint64_t LastSlotUser(const NodeState& state, size_t bytes) const;
  size_t TakeSlot(const NodeState& state, size_t bytes, uint64_t sequence);

 private:
  friend class StagingParts;

  char* base_ = nullptr;
  std::vector<char*> bases_;  // by rank, once looked up
  BounceRing rounds_;
  BounceRing slots_;
  PingPongArea ping_pong_;
};

// The parts of staging that the rounds of one operation take. A part is used until that of the round after the next is
// taken.
class StagingParts {
 public:
  using User = BounceRing::User;

  // The newest rounds; sequence 0 if there is none.
  struct Users {
    User read_here;   // by this rank, from the place that it will write to
    User read_there;  // by peers
  };

  // Uninitialised, for operations that stage nothing.
  StagingParts() = default;

  // `bytes`: of a part, at least 1; at most a quarter of a rank's ring, or half of the ping-pong area.
  StagingParts(size_t bytes, bool ping_pong) : bytes_(bytes), ping_pong_(ping_pong) {}

  // Ranks write where they read last, see ping_pong_area.h.
  bool ping_pong() const { return ping_pong_; }

  // The last users of any byte of the part that `round` will have.
  Users LastUsers(const NodeState& state, size_t round) const;

  // In order, also by ranks that write nothing there. Its readers must be through.
  void Take(NodeState& state, uint64_t sequence, size_t round);

  // Where `rank` writes in `round`, one of the last two taken. nullptr and *error set as in Staging::Of.
  char* Of(NodeState& state, int rank, size_t round, absl::Status* error) const;

  // At least one byte, by the stores that suit the place.
  void CopyIn(NodeState& state, char* to, const void* from, size_t bytes) const;

 private:
  struct Place {
    size_t offset;
    bool swapped;  // at the other rank
  };

  size_t bytes_;
  bool ping_pong_;
  Place last_[2];  // of the last two rounds
};

}  // namespace weft
