// A wait is told in one word, so that it is read whole without a lock: which is why the sequence number is cut to 20
// bits, and why a reader looks at the awaited word itself before it believes the wait. To find who holds up all others is
// then to follow these words as far as they lead.
#include "comm/node/long_wait.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "comm/group/message.h"

namespace weft {
namespace {

// Which word of the rank that is waited for; numbers are read by peers.
enum class Awaited : uint8_t { kNothing, kArrival, kStaged, kReduced, kDone, kWrote, kCounter };
constexpr uint64_t kAwaitedCount = 7;

struct LongWait {
  Awaited what = Awaited::kNothing;
  int peer = 0;
  uint32_t sequence = 0;  // kSequenceMask of it
  uint32_t want = 0;
};

// want, 20 bits of the sequence number, the peer, what.
constexpr uint32_t kSequenceMask = 0xfffff;
constexpr int kSequenceShift = 32;
constexpr int kPeerShift = 52;
constexpr uint64_t kPeerMask = 0x3f;
constexpr int kWhatShift = 58;
static_assert(kNodeRanksMax <= kPeerMask + 1);

uint64_t Pack(const LongWait& wait) {
  return static_cast<uint64_t>(wait.what) << kWhatShift |
         static_cast<uint64_t>(wait.peer) << kPeerShift |
         uint64_t{wait.sequence & kSequenceMask} << kSequenceShift | wait.want;
}

// `word` was written by a peer; what makes no sense is no wait.
LongWait Unpack(uint64_t word, int size) {
  const uint64_t what = word >> kWhatShift;
  const int peer = static_cast<int>(word >> kPeerShift & kPeerMask);
  if (what >= kAwaitedCount || peer >= size) return {};
  return {static_cast<Awaited>(what), peer,
          static_cast<uint32_t>(word >> kSequenceShift) & kSequenceMask,
          static_cast<uint32_t>(word)};
}

Awaited WhatOf(const NodeState& state, const WaitTarget& target) {
  if (target.of_all) return Awaited::kCounter;
  const RankControl& control = state.control(target.peer);
  if (target.word == &control.staged) return Awaited::kStaged;
  if (target.word == &control.reduced) return Awaited::kReduced;
  if (target.word == &control.done) return Awaited::kDone;
  if (target.word == &control.wrote) return Awaited::kWrote;
  return Awaited::kArrival;
}

bool Reached(const std::atomic<uint32_t>& word, uint32_t want) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - want) >= 0;
}

const std::atomic<uint32_t>& WordOf(const NodeState& state, const LongWait& wait) {
  const RankControl& control = state.control(wait.peer);
  switch (wait.what) {
    case Awaited::kStaged:
      return control.staged;
    case Awaited::kReduced:
      return control.reduced;
    case Awaited::kDone:
      return control.done;
    case Awaited::kWrote:
      return control.wrote;
    case Awaited::kCounter:
      return state.segment.arrival_counter().arrived;
    case Awaited::kNothing:
    case Awaited::kArrival:
      break;
  }
  return control.arrivals[wait.want % kWindow].sequence;
}

using Ranks = std::bitset<kNodeRanksMax>;

Ranks SetOf(const std::vector<int>& ranks) {
  Ranks set;
  for (const int rank : ranks)
    set.set(static_cast<size_t>(rank));
  return set;
}

std::vector<int> ListOf(const Ranks& set) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < set.size(); ++rank) {
    if (set[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Ranks NotArrived(const NodeState& state, uint32_t sequence) {
  Ranks missing;
  for (int peer = 0; peer < state.size; ++peer) {
    const Arrival& line = state.control(peer).arrivals[sequence % kWindow];
    missing.set(static_cast<size_t>(peer), !Reached(line.sequence, sequence));
  }
  return missing;
}

Ranks AllBut(const NodeState& state, int rank) {
  Ranks all;
  for (int peer = 0; peer < state.size; ++peer)
    all.set(static_cast<size_t>(peer), peer != rank);
  return all;
}

// Before `arrived` all have to arrive, and then the last of them has to say so; who that is nobody knows who did not count
// them.
Ranks AwaitedForCounter(const NodeState& state, int rank, uint32_t sequence) {
  Ranks awaited = NotArrived(state, sequence);
  if (awaited.any()) return awaited;
  for (int peer = 0; peer < state.size; ++peer) {
    const bool reduces = state.control(peer).reduces_for_all.load(std::memory_order_relaxed) != 0;
    awaited.set(static_cast<size_t>(peer), reduces && peer != rank);
  }
  return awaited.any() ? awaited : AllBut(state, rank);
}

// Those for whom `rank` waits in a collective; none if it does not.
Ranks AwaitedBy(const NodeState& state, int rank) {
  const RankControl& control = state.control(rank);
  const LongWait wait = Unpack(control.long_wait.load(std::memory_order_acquire), state.size);
  const uint32_t oldest = control.done.load(std::memory_order_acquire) + 1;
  if (wait.what == Awaited::kNothing || wait.sequence != (oldest & kSequenceMask)) return {};
  if (wait.what == Awaited::kCounter && state.tuning.combine == 0) return {};
  if (wait.what == Awaited::kArrival)
    return NotArrived(state, wait.want);  // all are awaited, in turn
  if (Reached(WordOf(state, wait), wait.want)) return {};
  if (wait.what == Awaited::kCounter) return AwaitedForCounter(state, rank, wait.want);
  return Ranks().set(static_cast<size_t>(wait.peer));
}

Ranks AwaitedInMessages(const NodeState& state, int rank) {
  const uint32_t waits = state.segment.messages(rank).long_wait.load(std::memory_order_acquire);
  if (waits == 0) return {};
  if (waits <= static_cast<uint32_t>(state.size)) return Ranks().set(waits - 1);
  return AllBut(state, rank);
}

// For whom this rank waits in a collective.
Ranks AwaitedOfOthers(const NodeState& state) {
  Ranks awaited = AwaitedBy(state, state.rank);
  return awaited.reset(static_cast<size_t>(state.rank));
}

bool Stopped(const NodeState& state, int rank) {
  return state.peers[static_cast<size_t>(rank)]->Stopped();
}

}  // namespace

void ShowLongWait(const NodeState& state, const Operation& operation) {
  const WaitTarget& target = operation.target();
  const LongWait wait{WhatOf(state, target), target.peer,
                      static_cast<uint32_t>(operation.sequence()), target.want};
  state.self().long_wait.store(Pack(wait), std::memory_order_release);
  state.recorder.SetProgress(operation.sequence(), operation.Progress());
}

void ShowLongMessageWait(const NodeState& state, int peer) {
  const auto ranks = static_cast<uint32_t>(state.size);
  state.segment.messages(state.rank)
      .long_wait.store(peer == WEFT_ANY_SOURCE ? ranks + 1 : static_cast<uint32_t>(peer) + 1,
                       std::memory_order_release);
}

void ClearLongMessageWait(const NodeState& state) {
  state.segment.messages(state.rank).long_wait.store(0, std::memory_order_release);
}

std::vector<int> RanksAwaited(const NodeState& state) {
  return ListOf(AwaitedOfOthers(state));
}

std::vector<int> RanksNotArrived(const NodeState& state) {
  const Ranks awaited = AwaitedOfOthers(state);
  if (awaited.none()) return {};
  return ListOf(awaited & NotArrived(state, state.self().done.load(std::memory_order_acquire) + 1));
}

bool AwaitsRanks(const NodeState& state) {
  return AwaitedOfOthers(state).any();
}

bool AwaitsRanksInMessages(const NodeState& state) {
  return AwaitedInMessages(state, state.rank).any();
}

std::vector<int> RanksAwaitedInMessages(const NodeState& state) {
  return ListOf(AwaitedInMessages(state, state.rank));
}

std::vector<int> RanksHoldingUp(const NodeState& state, const std::vector<int>& first) {
  Ranks seen = SetOf(first);
  seen.set(static_cast<size_t>(state.rank));
  std::vector<int> reached = first;
  std::vector<int> stopped;
  std::vector<int> others;
  for (size_t i = 0; i < reached.size(); ++i) {  // it grows
    const int rank = reached[i];
    const bool is_stopped = Stopped(state, rank);
    const Ranks awaited =
        is_stopped ? Ranks() : AwaitedBy(state, rank) | AwaitedInMessages(state, rank);
    if (awaited.none()) (is_stopped ? stopped : others).push_back(rank);
    for (int next = 0; next < state.size; ++next) {
      const auto bit = static_cast<size_t>(next);
      if (!awaited[bit] || seen[bit]) continue;
      seen.set(bit);
      reached.push_back(next);
    }
  }
  std::sort(stopped.begin(), stopped.end());
  std::sort(others.begin(), others.end());
  stopped.insert(stopped.end(), others.begin(), others.end());
  return stopped.empty() ? first : stopped;
}

}  // namespace weft
