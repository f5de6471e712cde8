#include "comm/node/operation.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {

uint32_t Signature(const Collective& call) {
  constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15ULL;
  constexpr uint64_t kOdd2 = 0xc2b2ae3d27d4eb4fULL;
  const uint64_t what = static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.dtype) << 8 |
                        static_cast<uint64_t>(call.op) << 16 |
                        static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  uint64_t hash = (what ^ call.count * kOdd1) * kOdd2;
  hash ^= hash >> 29;
  hash *= kOdd1;
  return static_cast<uint32_t>(hash >> 32);
}

bool Operation::HasInput(int rank) const {
  return call_.kind != OpKind::kBroadcast || call_.root == rank;
}

bool Operation::HasOutput(int rank) const {
  return call_.kind != OpKind::kReduce || call_.root == rank;
}

bool Operation::Reduces() const {
  return call_.kind == OpKind::kAllReduce || call_.kind == OpKind::kReduce ||
         call_.kind == OpKind::kReduceScatter;
}

Operation::Result Operation::Block(int peer, const std::atomic<uint32_t>& word, uint32_t want) {
  target_ = WaitTarget{peer, &word, want};
  return Result::kBlocked;
}

Operation::Result Operation::Fail(absl::Status error) {
  error_ = std::move(error);
  return Result::kFailed;
}

Operation::Result Operation::Finish(NodeState& state) {
  state.completed = sequence_;
  state.Publish(state.self().done, static_cast<uint32_t>(sequence_));
  return Result::kDone;
}

Operation::Size Operation::SizeOf(const NodeState& state) const {
  const size_t bytes = call_.kind == OpKind::kBarrier ? 0 : InputBytes(call_, state.size);
  if (bytes <= kInlineBytes) return Size::kInline;
  return bytes <= state.slot_limit_bytes ? Size::kSlot : Size::kLarge;
}

Operation::Result Operation::AwaitCredit(NodeState& state, uint64_t sequence) {
  const auto want = static_cast<uint32_t>(sequence);
  for (int peer = 0; peer < state.size; ++peer) {
    uint32_t& known = state.known_done[static_cast<size_t>(peer)];
    if (peer == state.rank || static_cast<int32_t>(known - want) >= 0) continue;
    const std::atomic<uint32_t>& done = state.control(peer).done;
    known = done.load(std::memory_order_acquire);
    if (static_cast<int32_t>(known - want) < 0) return Block(peer, done, want);
  }
  return Result::kDone;
}

void Operation::DescribePlaces(const NodeState& state, Arrival& line) {
  const Heap& heap = ProcessHeap();
  const char* const base = state.peers[static_cast<size_t>(state.rank)]->base();
  line.place = {};
  if (HasInput(state.rank) && heap.Contains(call_.in, InputBytes(call_, state.size))) {
    line.place.in_kind = MemoryKind::kHeap;
    line.place.in_offset = static_cast<uint64_t>(in() - base);
  }
  if (HasOutput(state.rank) && heap.Contains(call_.out, OutputBytes(call_, state.size))) {
    line.place.out_kind = MemoryKind::kHeap;
    line.place.out_offset = static_cast<uint64_t>(out() - base);
  }
  exposed_ = line.place.in_kind == MemoryKind::kHeap || line.place.out_kind == MemoryKind::kHeap;
}

Operation::Result Operation::Issue(NodeState& state) {
  size_ = SizeOf(state);
  uint64_t credit = sequence_ > kWindow ? sequence_ - kWindow : 0;  // I1
  if (size_ == Size::kSlot) {
    slot_ = state.slot_next;
    credit = std::max(credit, state.slot_user[slot_]);  // I2
  }
  if (credit > 0 && AwaitCredit(state, credit) == Result::kBlocked) return Result::kBlocked;

  Arrival& line = state.self().arrivals[sequence_ % kWindow];
  line.signature = Signature(call_);
  line.epoch = state.epoch;
  line.done = static_cast<uint32_t>(state.completed);
  if (size_ == Size::kLarge) {
    DescribePlaces(state, line);
  } else if (call_.count > 0 && call_.kind != OpKind::kBarrier && HasInput(state.rank)) {
    std::memcpy(size_ == Size::kInline ? static_cast<void*>(line.data)
                                       : state.segment.slot(state.rank, slot_),
                call_.in, InputBytes(call_, state.size));
  }
  if (size_ == Size::kSlot) {
    state.slot_user[slot_] = sequence_;
    state.slot_next = (slot_ + 1) % kSlotCount;
  }
  state.Publish(line.sequence, static_cast<uint32_t>(sequence_));
  issued_ = true;
  return Result::kDone;
}

bool Operation::CheckArrival(NodeState& state, int peer) {
  const Arrival& line = state.control(peer).arrivals[sequence_ % kWindow];
  if (line.signature != Signature(call_)) {
    odd_rank_ = peer;
    error_ = MakeError(WEFT_MISMATCH, "the ranks called different operations");
    return false;
  }
  if (line.epoch != state.epoch) {
    error_ =
        MakeError(WEFT_CORRUPT, fmt::format("rank {} is of membership epoch {}, this rank of {}",
                                            peer, line.epoch, state.epoch));
    return false;
  }
  uint32_t& known = state.known_done[static_cast<size_t>(peer)];
  if (static_cast<int32_t>(line.done - known) > 0) known = line.done;
  return true;
}

Operation::Result Operation::Arrive(NodeState& state) {
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank) continue;
    const auto& word = state.control(next_peer_).arrivals[sequence_ % kWindow].sequence;
    const auto want = static_cast<uint32_t>(sequence_);
    if (static_cast<int32_t>(word.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, word, want);
    }
    if (!CheckArrival(state, next_peer_)) return Result::kFailed;
  }
  next_peer_ = 0;
  return Result::kDone;
}

Operation::Result Operation::Step(NodeState& state) {
  if (phase_ == Phase::kArrive) {
    if (const Result result = Arrive(state); result != Result::kDone) return result;
    if (size_ != Size::kLarge) {
      OneShot(state);
      return Finish(state);
    }
    if (AllDirect(state)) return Direct(state);
    if (const absl::Status begun = BeginStaged(state); !begun.ok()) return Fail(begun);
  }
  return phase_ == Phase::kDirectWait ? DirectWait(state) : Staged(state);
}

const void* Operation::DataOf(const NodeState& state, int peer) const {
  if (peer == state.rank) return call_.in;
  if (size_ == Size::kSlot) return state.segment.slot(peer, slot_);
  return state.control(peer).arrivals[sequence_ % kWindow].data;
}

void Operation::RunKernel(const NodeState& state, const void* const* sources,
                          void* const* destinations, int destination_count, size_t count) const {
  FindReduceKernel(state.isa, call_.dtype,
                   call_.op)(ReduceArguments{.sources = sources,
                                             .source_count = state.size,
                                             .destinations = destinations,
                                             .destination_count = destination_count,
                                             .count = count,
                                             .divisor = state.size});
}

// All data has arrived with the arrivals; every rank makes its own result.
void Operation::OneShot(NodeState& state) {
  if (call_.kind == OpKind::kBarrier || call_.count == 0 || !HasOutput(state.rank)) return;
  const size_t bytes = call_.count * DtypeSize(call_.dtype);
  if (Reduces()) {
    const size_t offset =
        call_.kind == OpKind::kReduceScatter ? static_cast<size_t>(state.rank) * bytes : 0;
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer) {
      sources[peer] = static_cast<const char*>(DataOf(state, peer)) + offset;
    }
    RunKernel(state, sources, &call_.out, 1, call_.count);
  } else if (call_.kind == OpKind::kBroadcast) {
    // Elsewhere than on the root, in means nothing, even if it is out.
    if (state.rank != call_.root || call_.in != call_.out) {
      std::memcpy(call_.out, DataOf(state, call_.root), bytes);
    }
  } else {
    for (int peer = 0; peer < state.size; ++peer) {
      char* const to = out() + static_cast<size_t>(peer) * bytes;
      const void* const from = DataOf(state, peer);
      if (to != from) std::memcpy(to, from, bytes);
    }
  }
}

}  // namespace weft
