#include "comm/node/staging.h"

#include <cstring>
#include <new>

#include "base/check.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/node_state.h"
#include "fmt/format.h"

namespace weft {
namespace {

size_t SlotRingBytes(const NodeState& state) {
  return state.slots.swap() ? 0 : state.tuning.slot_ring_bytes;
}

// Behind the two rings.
size_t PingPongBegin(const NodeState& state) {
  return state.tuning.stage_ring_bytes + SlotRingBytes(state);
}

// Room for two rounds, each with a piece for every rank or a piece and results.
size_t PingPongBytes(const NodeState& state) {
  const auto ranks = static_cast<size_t>(state.size);
  return state.size == kPingPongRanks ? 2 * state.tuning.stage_piece_bytes * ranks : 0;
}

size_t StagingBytes(const NodeState& state) {
  return PingPongBegin(state) + PingPongBytes(state);
}

}  // namespace

absl::Status Staging::Make(const NodeState& state) {
  if (base_ != nullptr) return absl::OkStatus();
  absl::StatusOr<void*> block = ProcessHeap().Allocate(StagingBytes(state));
  if (!block.ok()) return Annotate(block.status(), "staging of the group: ");
  try {
    bases_.resize(static_cast<size_t>(state.size));
    rounds_ = BounceRing(state.tuning.stage_ring_bytes);
    slots_ = BounceRing(SlotRingBytes(state));
    ping_pong_ = PingPongArea(PingPongBytes(state));
  } catch (const std::bad_alloc&) {
    (void)ProcessHeap().Free(*block);
    return MakeError(WEFT_OUT_OF_MEMORY, "staging of the group: out of memory");
  }
  base_ = static_cast<char*>(*block);
  bases_[static_cast<size_t>(state.rank)] = base_;
  const char* const heap = state.peers[static_cast<size_t>(state.rank)]->base();
  state.self().stage_offset.store(static_cast<uint64_t>(base_ - heap), std::memory_order_release);
  return absl::OkStatus();
}

char* Staging::Of(const NodeState& state, int rank, absl::Status* error) {
  char*& base = bases_[static_cast<size_t>(rank)];
  if (base == nullptr) {
    const uint64_t offset = state.control(rank).stage_offset.load(std::memory_order_acquire);
    base = state.peers[static_cast<size_t>(rank)]->At(offset, StagingBytes(state));
    if (base == nullptr) {
      *error =
          MakeError(WEFT_CORRUPT, {.rank = rank},
                    fmt::format("rank {} announced staging at {}, outside its heap", rank, offset));
    }
  }
  return base;
}

bool Staging::FindAll(const NodeState& state, absl::Status* error) {
  for (int rank = 0; rank < state.size; ++rank) {
    if (Of(state, rank, error) == nullptr) return false;
  }
  return true;
}

uint64_t Staging::LastSlotUser(const NodeState& state, size_t bytes) const {
  return slots_.LastUser(bytes, state.tuning.slot_ring_bytes).sequence;
}

size_t Staging::TakeSlot(const NodeState& state, size_t bytes, uint64_t sequence) {
  return state.tuning.stage_ring_bytes +
         slots_.Take(bytes, state.tuning.slot_ring_bytes, {sequence, 0});
}

StagingParts::Users StagingParts::LastUsers(const NodeState& state, size_t round) const {
  const Staging& staging = state.staging;
  if (ping_pong_) {
    const PingPongArea::Users last = staging.ping_pong_.LastUsers(bytes_, round);
    return {last.read_here, last.read_there};
  }
  return {User{}, staging.rounds_.LastUser(bytes_, state.tuning.stage_lap_bytes)};
}

void StagingParts::Take(NodeState& state, uint64_t sequence, size_t round) {
  Staging& staging = state.staging;
  Place& place = last_[round & 1];
  if (ping_pong_) {
    const PingPongArea::Part part = staging.ping_pong_.Take(bytes_, {sequence, round});
    place = {PingPongBegin(state) + part.offset, part.swapped};
  } else {
    place = {staging.rounds_.Take(bytes_, state.tuning.stage_lap_bytes, {sequence, round}), false};
  }
}

char* StagingParts::Of(NodeState& state, int rank, size_t round, absl::Status* error) const {
  const Place& place = last_[round & 1];
  const int area = place.swapped ? state.size - 1 - rank : rank;
  char* const base = state.staging.Of(state, area, error);
  return base == nullptr ? nullptr : base + place.offset;
}

// Where it was read last, this rank has the lines.
void StagingParts::CopyIn(NodeState& state, char* to, const void* from, size_t bytes) const {
  if (ping_pong_) {
    std::memcpy(to, from, bytes);
  } else {
    state.stores.Copy(to, from, bytes);
  }
}

}  // namespace weft
