#include "comm/node/operation.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {

namespace {

// FNV-1a (Fowler, Noll, Vo).
uint64_t NameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

uint32_t Signature(const Collective& call) {
  constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15ULL;
  constexpr uint64_t kOdd2 = 0xc2b2ae3d27d4eb4fULL;
  const uint64_t what = static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.dtype) << 8 |
                        static_cast<uint64_t>(call.op) << 16 |
                        static_cast<uint64_t>(call.algorithm) << 28 |
                        static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  const uint64_t count = TraitsOf(call.kind).local_counts ? 0 : call.count;
  const uint64_t layout = call.layout == nullptr ? 0 : call.layout->hash;
  const uint64_t name = call.custom == nullptr ? 0 : NameHash(call.custom->name);
  uint64_t hash = (what ^ (count + (layout << 32) + (name << 17)) * kOdd1) * kOdd2;
  hash ^= hash >> 29;
  hash *= kOdd1;
  return static_cast<uint32_t>(hash >> 32);
}

size_t InlineBytes(const Collective& call) {
  const bool factor = TraitsOf(call.kind).reduces && call.op == kOpPremulSum;
  return factor ? kFactorOffset : kInlineBytes;
}

size_t ContributionBytes(const Collective& call, int size) {
  if (call.kind == OpKind::kBarrier) return 0;
  if (call.kind != OpKind::kAllGatherV) {
    return PackedCount(call, call.root, size) * ElementBytes(call);
  }
  const std::vector<size_t>& counts = call.layout->out_counts;
  return *std::max_element(counts.begin(), counts.end()) * ElementBytes(call);
}

absl::Status CheckAlgorithm(const Collective& call, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  const char* why = nullptr;
  switch (call.algorithm) {
    case Algorithm::kInline:
    case Algorithm::kSlot: {
      const bool line = call.algorithm == Algorithm::kInline;
      const size_t limit = line ? InlineBytes(call) : kSlotBytes;
      if (traits.local_counts || ContributionBytes(call, state.size) > limit) {
        why = line ? "it holds 48 bytes per rank" : "it holds 8192 bytes per rank";
      }
      break;
    }
    case Algorithm::kDirect:
      if (traits.iov || call.kind == OpKind::kBarrier) why = "this operation has no direct form";
      break;
    case Algorithm::kStaged:
      if (call.kind == OpKind::kBarrier) why = "a barrier has no data";
      break;
    case Algorithm::kAuto:
      break;
  }
  if (why == nullptr) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.operation = traits.name},
                   fmt::format("{}: algorithm \"{}\": {}; pass NULL to let weft choose",
                               traits.name, AlgorithmName(call.algorithm), why));
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
  switch (call_.algorithm) {
    case Algorithm::kInline:
      return Size::kInline;
    case Algorithm::kSlot:
      return Size::kSlot;
    case Algorithm::kDirect:
    case Algorithm::kStaged:
      return traits().local_counts ? Size::kRows : Size::kLarge;
    case Algorithm::kAuto:
      break;
  }
  if (traits().local_counts) return Size::kRows;
  const size_t bytes = ContributionBytes(call_, state.size);
  if (bytes <= InlineBytes(call_)) return Size::kInline;
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

// Where peers may find this rank's buffers. Private, whatever they are, if they must not be read or
// written in place: lists of buffers, an all_to_all that overwrites what it sends, and when the staged
// algorithm was asked for. A side without bytes can be read by everybody.
void Operation::DescribePlaces(const NodeState& state, Arrival& line) {
  line.place = {};
  const bool swaps = (call_.kind == OpKind::kAllToAll || call_.kind == OpKind::kAllToAllV) &&
                     call_.in == call_.out && call_.in != nullptr;
  if (traits().iov || swaps || call_.algorithm == Algorithm::kStaged) return;
  const Heap& heap = ProcessHeap();
  const auto describe = [&](const void* memory, size_t bytes, MemoryKind* kind, uint64_t* at) {
    if (bytes > 0) {
      const std::optional<uint64_t> offset = heap.OffsetOf(memory, bytes);
      if (!offset) return;
      *at = *offset;
      exposed_ = true;
    }
    *kind = MemoryKind::kHeap;
  };
  const size_t in_bytes = HasInput(call_, state.rank) ? InputBytes(call_, state.size) : 0;
  const size_t out_bytes = HasOutput(call_, state.rank) ? OutputBytes(call_, state.size) : 0;
  describe(call_.in, in_bytes, &line.place.in_kind, &line.place.in_offset);
  describe(call_.out, out_bytes, &line.place.out_kind, &line.place.out_offset);
}

Operation::Result Operation::Issue(NodeState& state) {
  size_ = SizeOf(state);
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
      break;
  }
  if (InlineBytes(call_) == kFactorOffset) {
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
  const Arrival& line = state.control(peer).arrivals[sequence_ % kWindow];
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
    return Move(state);
  }
  return phase_ == Phase::kDirectWait ? DirectWait(state) : Staged(state);
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
  if (AllDirect(state)) return Direct(state);
  if (call_.algorithm == Algorithm::kDirect) {
    error_ =
        MakeError(WEFT_UNSUPPORTED,
                  "algorithm \"direct\": a rank's buffers are not in memory that its peers can "
                  "reach; use weft_mem_alloc or weft_mem_register on all ranks");
    Finish(state);
    return Result::kRefused;
  }
  if (const absl::Status begun = BeginStaged(state); !begun.ok()) return Fail(begun);
  return Staged(state);
}

void Operation::RunKernel(const NodeState& state, const void* const* sources,
                          void* const* destinations, int destination_count, size_t count) const {
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
      const Arrival& line = state.control(rank).arrivals[sequence_ % kWindow];
      std::memcpy(&factors[rank], line.data + kFactorOffset, sizeof(factors[rank]));
    }
    arguments.factors = factors;
  }
  FindReduceKernel(state.isa, call_.dtype, call_.op)(arguments);
}

}  // namespace weft
