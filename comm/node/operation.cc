#include "comm/node/operation.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/node/alone.h"
#include "comm/node/heap.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"

namespace weft {
namespace {

// True, and where, if it lies in a shared block in the heap of another rank of the group.
bool InPeersHeap(const NodeState& state, const void* memory, size_t bytes, uint64_t* offset,
                 uint8_t* owner) {
  if (!ProcessSharedBlocks().MayHold(memory)) return false;
  const std::optional<SharedPlace> place = ProcessSharedBlocks().Find(memory, bytes);
  if (!place) return false;
  const int rank = state.RankOf(place->owner.get());
  if (rank < 0) return false;
  *offset = place->offset;
  *owner = static_cast<uint8_t>(rank);
  return true;
}

absl::Status DifferentCalls() {
  return MakeError(WEFT_MISMATCH, "the ranks called different operations");
}

}  // namespace

Operation::Result Operation::Block(int peer, const std::atomic<uint32_t>& word, uint32_t want) {
  target_ = WaitTarget{peer, &word, want};
  return Result::kBlocked;
}

Operation::Result Operation::Fail(absl::Status error) {
  error_ = std::move(error);
  return Result::kFailed;
}

// Until every rank has published done >= sequence. What is found is kept: peers are seldom asked.
Operation::Result Operation::AwaitCredit(NodeState& state, uint64_t sequence) {
  if (sequence <= state.all_done) return Result::kDone;  // perhaps older than 32 bits can tell
  // This rank itself reads its slot and line again when it does the operation: it may announce ahead of
  // its own work no further than of the others'.
  if (sequence > state.completed) return Result::kBlocked;
  const auto want = static_cast<uint32_t>(sequence);
  uint64_t beyond = state.completed - sequence;
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    uint32_t& known = state.known_done[static_cast<size_t>(peer)];
    if (static_cast<int32_t>(known - want) < 0) {
      const std::atomic<uint32_t>& done = state.control(peer).done;
      known = done.load(std::memory_order_acquire);
      if (static_cast<int32_t>(known - want) < 0) return Block(peer, done, want);
    }
    beyond = std::min(beyond, uint64_t{known - want});
  }
  state.all_done = sequence + beyond;
  return Result::kDone;
}

// Where peers may find this rank's buffers. Nowhere, whatever they are, if they must not be read or
// written in place: lists of buffers, an all_to_all that overwrites what it sends, and when the staged
// algorithm was asked for. A side without bytes can be read by everybody.
void Operation::DescribePlaces(NodeState& state, Arrival& line) {
  auto& told = line.told;
  told = {.identity = prepared_.identity};
  BufferPlaces& places = state.self().places[sequence_ % kWindow];
  places = {};
  if (shared_owner_ != nullptr) DescribeSharedOut(state, line, places);
  const bool swaps = (call_.kind == OpKind::kAllToAll || call_.kind == OpKind::kAllToAllV) &&
                     call_.in == call_.out && call_.in != nullptr;
  if (traits().iov || swaps || call_.algorithm == Algorithm::kStaged) return;
  const Heap& heap = ProcessHeap();
  const auto describe = [&](const void* memory, size_t bytes, MemoryKind* kind, uint64_t* at,
                            uint8_t* owner) {
    *kind = MemoryKind::kHeap;
    *owner = static_cast<uint8_t>(state.rank);
    if (bytes == 0) return;
    if (const std::optional<uint64_t> offset = heap.OffsetOf(memory, bytes)) {
      *at = *offset;
      exposed_ = true;
    } else if (InPeersHeap(state, memory, bytes, at, owner)) {
      exposed_ = true;
    } else {
      *kind = MemoryKind::kPrivate;
      *at = reinterpret_cast<uintptr_t>(memory);
    }
  };
  const size_t in_bytes = shape_.has_input ? InputBytes(call_, state.size) : 0;
  const size_t out_bytes = shape_.has_output ? OutputBytes(call_, state.size) : 0;
  places.in_bytes = in_bytes;
  places.out_bytes = out_bytes;
  describe(call_.in, in_bytes, &told.in_kind, &places.in_offset, &told.in_owner);
  if (shared_owner_ == nullptr) {
    describe(call_.out, out_bytes, &told.out_kind, &places.out_offset, &told.out_owner);
  }
  told.reads_peers = state.reads_peers ? 1 : 0;
}

Operation::Result Operation::Issue(NodeState& state) {
  return Announce(state);
}

Operation::Result Operation::Step(NodeState& state) {
  return Proceed(state);
}

Operation::Result Operation::Advance(NodeState& state) {
  if (!issued_ && Announce(state) == Result::kBlocked) return Result::kBlocked;
  return Proceed(state);
}

[[gnu::always_inline]] inline Operation::Result Operation::Announce(NodeState& state) {
  size_ = prepared_.size;
  if (size_ == Size::kAlone) {
    issued_ = true;
    return Result::kDone;
  }
  if (state.shared_blocks->MayHold(call_.out)) NoteSharedOut(state);
  const bool slotted = size_ == Size::kSlot || size_ == Size::kRows;
  uint64_t credit = sequence_ > kWindow ? sequence_ - kWindow : 0;  // I1
  if (slotted) {
    slot_ = state.slot_next;
    slot_turned_ = state.slot_turned;
    credit = std::max(credit, state.slot_user[slot_]);  // I2
  } else if (size_ == Size::kRingSlot) {
    if (absl::Status made = MakeStage(state); !made.ok()) return Break(std::move(made));
    credit = std::max(
        credit,
        state.slot_ring.LastUser(shape_.contribution_bytes, state.tuning.slot_ring_bytes).sequence);
  }
  if (credit > state.all_done && AwaitCredit(state, credit) == Result::kBlocked) {
    return Result::kBlocked;
  }

  Arrival& line = state.self().arrivals[sequence_ % kWindow];
  line.signature = signature_;
  line.epoch = shared_owner_ == nullptr ? state.epoch : state.epoch | kOutIsShared;
  line.done = static_cast<uint32_t>(state.completed);
  switch (size_) {
    case Size::kAlone:
      break;
    case Size::kInline:
      PackInput(state, reinterpret_cast<char*>(line.data));
      break;
    case Size::kSlot:
      line.told = {.identity = prepared_.identity};
      PackInput(state, SlotOf(state, state.rank));
      UseSlot(state);
      break;
    case Size::kRingSlot:
      line.told = {.identity = prepared_.identity};
      slot_offset_ = state.tuning.stage_ring_bytes +
                     state.slot_ring.Take(shape_.contribution_bytes, state.tuning.slot_ring_bytes,
                                          {sequence_, 0});
      PackInput(state, state.stage + slot_offset_);
      break;
    case Size::kRows:
      DescribePlaces(state, line);
      WriteRow(state);
      UseSlot(state);
      break;
    case Size::kLarge:
      DescribePlaces(state, line);
      if (!WantsSingleCopy(state)) StageEarly(state, line);
      break;
  }
  if (prepared_.announces_more) [[unlikely]] {
    PublishMore(state, line);
  } else {
    state.Publish(line.sequence, static_cast<uint32_t>(sequence_));
  }
  issued_ = true;
  return Result::kDone;
}

// An arrival with a factor in its line, or of ranks that count themselves in.
void Operation::PublishMore(NodeState& state, Arrival& line) {
  if (call_.op == kOpPremulSum && traits().reduces) {
    std::memcpy(line.data + kFactorOffset, &call_.custom->factor, sizeof(call_.custom->factor));
  }
  state.Publish(line.sequence, static_cast<uint32_t>(sequence_));
  if (prepared_.meeting != Meeting::kLines) CountIn(state);
}

// Nothing is announced: the operation fails when it is its turn.
Operation::Result Operation::Break(absl::Status error) {
  error_ = std::move(error);
  phase_ = Phase::kBroken;
  issued_ = true;
  return Result::kDone;
}

// True if the arrival is like this rank's, but for an out in a shared block, which is told with the epoch.
bool Operation::TakeSharedOut(const NodeState& state, int peer, const Arrival& line) {
  if (line.signature != signature_ || (line.epoch & ~kOutIsShared) != state.epoch) return false;
  shared_outs_ |= uint64_t{1} << peer;
  return true;
}

// All ranks have arrived for a call whose data is not in their lines, and their signatures are this rank's: whether the
// calls are, too. Then the ranks' staging must be known, if the data is there.
bool Operation::AcceptArrivals(NodeState& state) {
  for (int peer = 0; peer < state.size; ++peer) {
    if (ArrivalOf(state, peer).told.identity == prepared_.identity) continue;
    odd_rank_ = peer;
    error_ = DifferentCalls();
    return false;
  }
  return size_ != Size::kRingSlot || FindStages(state);
}

// An arrival that this rank cannot go on with.
Operation::Result Operation::RefuseArrival(const NodeState& state, int peer, const Arrival& line) {
  if (line.signature != signature_) {
    odd_rank_ = peer;
    return Fail(DifferentCalls());
  }
  return Fail(
      MakeError(WEFT_CORRUPT, fmt::format("rank {} is of membership epoch {}, this rank of {}",
                                          peer, line.epoch & ~kOutIsShared, state.epoch)));
}

[[gnu::always_inline]] inline Operation::Result Operation::Arrive(NodeState& state) {
  for (; next_peer_ < state.size; ++next_peer_) {
    if (next_peer_ == state.rank) continue;
    const Arrival& line = ArrivalOf(state, next_peer_);
    const auto want = static_cast<uint32_t>(sequence_);
    if (static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer_, line.sequence, want);
    }
    if ((line.signature != signature_ || line.epoch != state.epoch) &&
        !TakeSharedOut(state, next_peer_, line)) {
      return RefuseArrival(state, next_peer_, line);
    }
    uint32_t& known = state.known_done[static_cast<size_t>(next_peer_)];
    if (static_cast<int32_t>(line.done - known) > 0) known = line.done;
  }
  next_peer_ = 0;
  return Result::kDone;
}

[[gnu::always_inline]] inline Operation::Result Operation::Proceed(NodeState& state) {
  if (size_ == Size::kAlone) {
    FinishAlone(prepared_, sequence_, state);
    return Result::kDone;
  }
  if (phase_ == Phase::kArrive) {
    if (const Result result = Arrive(state); result != Result::kDone) return result;
    if (size_ != Size::kInline && !AcceptArrivals(state)) return Result::kFailed;
    if (shared_outs_ != 0) FindSharers(state);
    if (IsOneShot(size_) && sharers_ == 0) {
      OneShot(state);
      return Finish(state);
    }
  }
  return sharers_ == 0 ? Go(state) : GoEngaged(state);
}

// What comes after the arrival.
Operation::Result Operation::Go(NodeState& state) {
  switch (phase_) {
    case Phase::kBroken:
      return Result::kFailed;
    case Phase::kArrive:
      return Move(state);
    case Phase::kMeet:
      return Meet(state);
    case Phase::kTurn:
      return TakeTurns(state);
    case Phase::kWriters:
      return AwaitWriters(state);
    case Phase::kDirectWait:
      return DirectWait(state);
    case Phase::kStaged:
      break;
  }
  return Staged(state);
}

// The arrival, and what follows it, of ranks that meet at one word. Lines that are there are compared before the
// rank sleeps; once all have met, all are.
Operation::Result Operation::Meet(NodeState& state) {
  const bool met = HaveMet(state);
  const Result result = Arrive(state);
  if (result == Result::kFailed || (met && result == Result::kBlocked)) return result;
  if (!met) {
    return AwaitMet(state, result == Result::kBlocked ? next_peer_ : (state.rank + 1) % state.size);
  }
  phase_ = Phase::kArrive;
  if (size_ != Size::kInline && !AcceptArrivals(state)) return Result::kFailed;
  if (shared_outs_ != 0) FindSharers(state);
  if (IsOneShot(size_) && sharers_ == 0) {
    prepared_.meeting == Meeting::kCombined && !SeveralShareOut() ? TakeCombined(state)
                                                                  : OneShot(state);
    return Finish(state);
  }
  return sharers_ == 0 ? Move(state) : GoEngaged(state);
}

// Ends the operation on all ranks alike: what it asks for cannot be done.
Operation::Result Operation::Refuse(NodeState& state, std::string_view why) {
  error_ = MakeError(WEFT_UNSUPPORTED,
                     StrCat("algorithm \"", AlgorithmName(call_.algorithm), "\": ", why));
  Finish(state);
  return Result::kRefused;
}

// All ranks have arrived for a call whose data is still to be moved: chooses the protocol, from facts that all
// of them have.
Operation::Result Operation::Move(NodeState& state) {
  if (IsOneShot(size_)) return TakeTurns(state);
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

// A large output would push everything else out of the caches, and be fetched only to be overwritten.
void Operation::CopyToOutput(const NodeState& state, int block, size_t begin, size_t count,
                             const char* from) const {
  const bool streams = OutputBytes(call_, state.size) >= state.tuning.stream_out_min_bytes;
  for (size_t done = 0; done < count;) {
    const Run run = OutRun(call_, block, begin + done, count - done);
    const char* const source = from + done * shape_.element_bytes;
    if (streams) {
      state.stream_copy(run.memory, source, run.count * shape_.element_bytes);
    } else {
      std::memcpy(run.memory, source, run.count * shape_.element_bytes);
    }
    done += run.count;
  }
}

void Operation::RunCustom(const NodeState& state, ReduceArguments arguments) const {
  if (call_.op == kOpUser) return ReduceByUser(*call_.custom, call_.dtype, arguments);
  uint64_t factors[kNodeRanksMax];
  for (int rank = 0; rank < state.size; ++rank) {
    const void* const factor =
        rank == state.rank ? &call_.custom->factor
                           : static_cast<const void*>(ArrivalOf(state, rank).data + kFactorOffset);
    std::memcpy(&factors[rank], factor, sizeof(factors[rank]));
  }
  arguments.factors = factors;
  FindReduceKernel(state.isa, call_.dtype, call_.op)(arguments);
}

}  // namespace weft
