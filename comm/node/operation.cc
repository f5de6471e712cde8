#include "comm/node/operation.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {

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
  state.PublishDone();
  // The line of the next operation was read by peers a while ago: takes it back meanwhile.
  __builtin_prefetch(&state.self().arrivals[(sequence_ + 1) % kWindow], 1);
  return Result::kDone;
}

Operation::Size Operation::SizeOf(const NodeState& state) const {
  if (state.size == 1 && call_.layout == nullptr) return Size::kAlone;
  switch (call_.algorithm) {
    case Algorithm::kInline:
      return Size::kInline;
    case Algorithm::kSlot:
      return Size::kSlot;
    case Algorithm::kDirect:
    case Algorithm::kStaged:
    case Algorithm::kSingleCopy:
      return traits().local_counts ? Size::kRows : Size::kLarge;
    case Algorithm::kAuto:
      break;
  }
  if (traits().local_counts) return Size::kRows;
  if (shape_.contribution_bytes <= InlineBytes(call_)) return Size::kInline;
  return shape_.contribution_bytes <= state.tuning.slot_limit_bytes ? Size::kSlot : Size::kLarge;
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

// Where peers may find this rank's buffers. Nowhere, whatever they are, if they must not be read or
// written in place: lists of buffers, an all_to_all that overwrites what it sends, and when the staged
// algorithm was asked for. A side without bytes can be read by everybody.
void Operation::DescribePlaces(const NodeState& state, Arrival& line) {
  line.place = {};
  const bool swaps = (call_.kind == OpKind::kAllToAll || call_.kind == OpKind::kAllToAllV) &&
                     call_.in == call_.out && call_.in != nullptr;
  if (traits().iov || swaps || call_.algorithm == Algorithm::kStaged) return;
  const Heap& heap = ProcessHeap();
  const auto describe = [&](const void* memory, size_t bytes, MemoryKind* kind, uint64_t* at) {
    *kind = MemoryKind::kHeap;
    if (bytes == 0) return;
    if (const std::optional<uint64_t> offset = heap.OffsetOf(memory, bytes)) {
      *at = *offset;
      exposed_ = true;
    } else {
      *kind = MemoryKind::kPrivate;
      *at = reinterpret_cast<uintptr_t>(memory);
    }
  };
  const size_t in_bytes = shape_.has_input ? InputBytes(call_, state.size) : 0;
  const size_t out_bytes = shape_.has_output ? OutputBytes(call_, state.size) : 0;
  describe(call_.in, in_bytes, &line.place.in_kind, &line.place.in_offset);
  describe(call_.out, out_bytes, &line.place.out_kind, &line.place.out_offset);
  line.place.reads_peers = state.reads_peers ? 1 : 0;
}

Operation::Result Operation::Issue(NodeState& state) {
  size_ = SizeOf(state);
  if (size_ == Size::kAlone) {
    issued_ = true;
    return Result::kDone;
  }
  const bool slotted = size_ == Size::kSlot || size_ == Size::kRows;
  uint64_t credit = sequence_ > kWindow ? sequence_ - kWindow : 0;  // I1
  if (slotted) {
    slot_ = state.slot_next;
    credit = std::max(credit, state.slot_user[slot_]);  // I2
  }
  // This rank itself reads its slot and line again when it does the operation: it may announce ahead of
  // its own work no further than of the others'.
  if (credit > state.completed) return Result::kBlocked;
  if (credit > 0 && AwaitCredit(state, credit) == Result::kBlocked) return Result::kBlocked;

  Arrival& line = state.self().arrivals[sequence_ % kWindow];
  line.signature = signature_;
  line.epoch = state.epoch;
  line.done = static_cast<uint32_t>(state.completed);
  switch (size_) {
    case Size::kAlone:
      break;
    case Size::kInline:
      PackInput(state, reinterpret_cast<char*>(line.data));
      break;
    case Size::kSlot:
      PackInput(state, state.segment.slot(state.rank, slot_));
      break;
    case Size::kRows:
      DescribePlaces(state, line);
      WriteRow(state);
      break;
    case Size::kLarge:
      DescribePlaces(state, line);
      if (!WantsSingleCopy(state)) StageEarly(state, line);
      break;
  }
  if (call_.op == kOpPremulSum && traits().reduces) {
    std::memcpy(line.data + kFactorOffset, &call_.custom->factor, sizeof(call_.custom->factor));
  }
  if (slotted) {
    state.slot_user[slot_] = sequence_;
    state.slot_next = (slot_ + 1) % kSlotCount;
  }
  state.Publish(line.sequence, static_cast<uint32_t>(sequence_));
  issued_ = true;
  return Result::kDone;
}

bool Operation::CheckArrival(NodeState& state, int peer) {
  const Arrival& line = ArrivalOf(state, peer);
  if (line.signature != signature_) {
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
    const auto& word = ArrivalOf(state, next_peer_).sequence;
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
  if (size_ == Size::kAlone) {
    OneShot(state);
    state.completed = sequence_;
    state.self().done.store(static_cast<uint32_t>(sequence_), std::memory_order_release);
    return Result::kDone;
  }
  if (phase_ == Phase::kArrive) {
    if (const Result result = Arrive(state); result != Result::kDone) return result;
    return Move(state);
  }
  return phase_ == Phase::kDirectWait ? DirectWait(state) : Staged(state);
}

// Ends the operation on all ranks alike: what it asks for cannot be done.
Operation::Result Operation::Refuse(NodeState& state, std::string_view why) {
  error_ = MakeError(WEFT_UNSUPPORTED,
                     StrCat("algorithm \"", AlgorithmName(call_.algorithm), "\": ", why));
  Finish(state);
  return Result::kRefused;
}

// All ranks have arrived: chooses the protocol, from facts that all of them have.
Operation::Result Operation::Move(NodeState& state) {
  if (size_ == Size::kInline || size_ == Size::kSlot) {
    OneShot(state);
    return Finish(state);
  }
  if (size_ == Size::kRows) {
    if (const absl::Status read = ReadRows(state); !read.ok()) return Fail(read);
    if (in_slots_) {
      if (const absl::Status moved = OneShotRows(state); !moved.ok()) return Fail(moved);
      return Finish(state);
    }
  }
  const bool staged_asked = call_.algorithm == Algorithm::kStaged;
  if (!staged_asked && AllDirect(state)) return Direct(state);
  if (AllSingleCopy(state)) return Direct(state);
  if (call_.algorithm == Algorithm::kDirect) {
    return Refuse(state,
                  "a rank's buffers are not in memory that its peers can reach; use weft_mem_alloc "
                  "or weft_mem_register on all ranks");
  }
  if (call_.algorithm == Algorithm::kSingleCopy) {
    return Refuse(state,
                  "a rank may not read its peers' memory (process_vm_readv), or reads what it also "
                  "overwrites");
  }
  if (!begun_) {
    if (const absl::Status begun = BeginStaged(state); !begun.ok()) return Fail(begun);
  }
  phase_ = Phase::kStaged;
  return Staged(state);
}

void Operation::RunKernel(NodeState& state, const void* const* sources, void* const* destinations,
                          int destination_count, size_t count) const {
  uint64_t factors[kNodeRanksMax];
  ReduceArguments arguments{.sources = sources,
                            .source_count = state.size,
                            .destinations = destinations,
                            .destination_count = destination_count,
                            .count = count,
                            .divisor = state.size};
  if (call_.op == kOpUser) return ReduceByUser(*call_.custom, call_.dtype, arguments);
  if (call_.op == kOpPremulSum) {
    for (int rank = 0; rank < state.size; ++rank) {
      const void* const factor =
          rank == state.rank
              ? &call_.custom->factor
              : static_cast<const void*>(ArrivalOf(state, rank).data + kFactorOffset);
      std::memcpy(&factors[rank], factor, sizeof(factors[rank]));
    }
    arguments.factors = factors;
  }
  state.KernelFor(call_.dtype, call_.op)(arguments);
}

}  // namespace weft
