// Operations whose result is the same for all ranks, and which several ranks get in one place
// (weft_mem_alloc_shared). Nothing may write there once another of these ranks has returned, and no byte is to be
// written by two of them at the same time. So every arrival says whether its out lies in a shared block, and then:
//   one-shot   places are not known: these ranks write one after the other, in the order of ranks
//   direct     places are known: of the ranks that have the same one, everybody writes the slice that it reduces or
//              the block that it contributes, and the first one writes the blocks of ranks outside
//   staged     likewise; a rank leaves the results of those that have its own place alone
// In the end the ranks that have one place wait until all of them have written: in direct operations as in any
// other, in staged and one-shot ones by `wrote`. All of this is decided from all arrivals, alike on all ranks.
//
// Places of peers are written to, so ranks are engaged meanwhile, as in direct operations.
#include "base/status.h"
#include "comm/node/operation.h"
#include "comm/node/shared_blocks.h"

namespace weft {

// Lists of buffers are nobody's place: each rank has its own. What ranks get for themselves alone cannot be
// shared.
void Operation::NoteSharedOut(const NodeState& state) {
  const size_t bytes = SameForAll(call_) ? OutputBytes(call_, state.size) : 0;
  if (bytes == 0) return;
  const std::optional<SharedPlace> place = ProcessSharedBlocks().Find(call_.out, bytes);
  if (!place) return;
  shared_owner_ = place->owner.get();  // stays with the block, which the caller keeps
  shared_offset_ = place->offset;
  shared_outs_ = uint64_t{1} << state.rank;
  exposed_ = true;
}

// A group need not have the block's owner among its ranks: then its ranks know the place, and cannot all reach
// it.
void Operation::DescribeSharedOut(const NodeState& state, Arrival& line,
                                  BufferPlaces& places) const {
  const int owner = state.RankOf(shared_owner_);
  places.out_heap = shared_owner_->identity().heap_id;
  places.out_offset = shared_offset_;
  line.told.out_owner = static_cast<uint8_t>(owner < 0 ? 0 : owner);
  line.told.out_kind = owner < 0 ? MemoryKind::kPrivate : MemoryKind::kHeap;
}

// All ranks have arrived: who has the same out.
void Operation::FindSharers(const NodeState& state) {
  if (!SeveralShareOut()) return;
  const bool mine = (shared_outs_ >> state.rank & 1) != 0;
  if (!mine) return;
  if (size_ != Size::kLarge) {
    sharers_ = shared_outs_;
    return;
  }
  const auto same = [&](int a, int b) {
    const BufferPlaces& first = PlacesOf(state, a);
    const BufferPlaces& second = PlacesOf(state, b);
    return first.out_heap == second.out_heap && first.out_offset == second.out_offset;
  };
  for (int rank = 0; rank < state.size; ++rank) {
    if ((shared_outs_ >> rank & 1) != 0 && same(rank, state.rank)) sharers_ |= uint64_t{1} << rank;
  }
  if ((sharers_ & (sharers_ - 1)) == 0) sharers_ = 0;
}

// True if this rank is the one to put what comes from `peer` into its out.
bool Operation::WritesFrom(const NodeState& state, int peer) const {
  if (sharers_ == 0) return true;
  if ((sharers_ >> peer & 1) != 0) return peer == state.rank;
  return __builtin_ctzll(sharers_) == state.rank;
}

// The order of `engaged` and the abort word is that of Direct().
Operation::Result Operation::GoEngaged(NodeState& state) {
  std::atomic<uint32_t>& engaged = state.self().engaged;
  engaged.store(1, std::memory_order_seq_cst);
  const Result result = state.aborted() ? Fail(MakeError(WEFT_ABORTED, "aborted")) : Go(state);
  state.Publish(engaged, 0);
  if (result != Result::kBlocked) state.Wake();
  return result;
}

// Until the sharers among the ranks before `end` have written.
Operation::Result Operation::AwaitWrote(const NodeState& state, int end) {
  const auto want = static_cast<uint32_t>(sequence_);
  for (; next_peer_ < end; ++next_peer_) {
    if (next_peer_ == state.rank || (sharers_ >> next_peer_ & 1) == 0) continue;
    const std::atomic<uint32_t>& word = state.control(next_peer_).wrote;
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, word, want);
    }
  }
  return Result::kDone;
}

// Of a small result, which the ranks that share its place write one after the other.
Operation::Result Operation::TakeTurns(NodeState& state) {
  phase_ = Phase::kTurn;
  if (AwaitWrote(state, state.rank) == Result::kBlocked) return Result::kBlocked;
  OneShot(state);
  return EndShared(state);
}

// This rank has written what it has to.
Operation::Result Operation::EndShared(NodeState& state) {
  next_peer_ = 0;
  state.Publish(state.self().wrote, static_cast<uint32_t>(sequence_));
  phase_ = Phase::kWriters;
  return AwaitWriters(state);
}

Operation::Result Operation::AwaitWriters(NodeState& state) {
  if (AwaitWrote(state, state.size) == Result::kBlocked) return Result::kBlocked;
  return Finish(state);
}

}  // namespace weft
