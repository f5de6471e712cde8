#include "comm/node/shared_result.h"

#include <optional>

#include "comm/node/shared_blocks.h"

namespace weft {

// Lists of buffers are nobody's place: each rank has its own. What ranks get for themselves alone cannot be
// shared.
void SharedResult::FindOwn(OperationFrame& frame) {
  const NodeState& state = frame.state;
  const size_t bytes = SameForAll(frame.call()) ? OutputBytes(frame.call(), state.size) : 0;
  if (bytes == 0) return;
  const std::optional<SharedPlace> place = ProcessSharedBlocks().Find(frame.call().out, bytes);
  if (!place) return;
  owner_ = place->owner.get();  // stays with the block, which the caller keeps
  offset_ = place->offset;
  NoteArrival(state.rank);
  frame.exposed = true;
}

// A group need not have the block's owner among its ranks: then its ranks know the place, and cannot all reach
// it.
void SharedResult::Describe(const OperationFrame& frame, Arrival& line,
                            BufferPlaces& places) const {
  const int owner = frame.state.RankOf(owner_);
  places.out_heap = owner_->identity().heap_id;
  places.out_offset = offset_;
  line.told.out_owner = static_cast<uint8_t>(owner < 0 ? 0 : owner);
  line.told.out_kind = owner < 0 ? MemoryKind::kPrivate : MemoryKind::kHeap;
}

void SharedResult::FindSharers(const OperationFrame& frame) {
  if (!SeveralAnnounced()) return;
  const int own = frame.state.rank;
  const bool mine = (outs_ >> own & 1) != 0;
  if (!mine) return;
  if (frame.prepared.protocol != Protocol::kAuto) {
    sharers_ = outs_;
    return;
  }
  const auto same = [&](int a, int b) {
    const BufferPlaces& first = frame.PlacesOf(a);
    const BufferPlaces& second = frame.PlacesOf(b);
    return first.out_heap == second.out_heap && first.out_offset == second.out_offset;
  };
  for (int rank = 0; rank < frame.state.size; ++rank) {
    if ((outs_ >> rank & 1) != 0 && same(rank, own)) sharers_ |= uint64_t{1} << rank;
  }
  if ((sharers_ & (sharers_ - 1)) == 0) sharers_ = 0;
}

bool SharedResult::WritesFrom(const NodeState& state, int peer) const {
  if (!is_shared()) return true;
  if ((sharers_ >> peer & 1) != 0) return peer == state.rank;
  return __builtin_ctzll(sharers_) == state.rank;
}

OperationResult SharedResult::AwaitWrote(OperationFrame& frame, int end) const {
  const auto want = static_cast<uint32_t>(frame.sequence);
  for (int& peer = frame.next_peer; peer < end; ++peer) {
    if (peer == frame.state.rank || (sharers_ >> peer & 1) == 0) continue;
    const std::atomic<uint32_t>& word = frame.state.control(peer).wrote;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return frame.Block(peer, word, want);
    }
  }
  return OperationResult::kDone;
}

void SharedResult::PublishWrote(OperationFrame& frame) const {
  frame.next_peer = 0;
  frame.state.Publish(frame.state.self().wrote, static_cast<uint32_t>(frame.sequence));
}

OperationResult SharedResult::AwaitWriters(OperationFrame& frame) const {
  if (AwaitWrote(frame, frame.state.size) == OperationResult::kBlocked) {
    return OperationResult::kBlocked;
  }
  return frame.Finish();
}

}  // namespace weft
