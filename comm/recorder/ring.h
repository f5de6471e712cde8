// The flight recorder: the last operations of one rank, in the group's shared segment, so that peers
// can read them after their owner has died.
//
//   RecorderRing ring(entries);           // entries: in the segment, zeroed
//   ring.Record({.sequence = 412, .kind = ..., ...});
//   ...
//   ring.SetState(412, RecordState::kDone);
//   std::optional<RecordedCall> call = ring.Find(412);   // any process
//
// One entry is one cache line of eight words; word 0 is the sequence number, written 0 before and the
// number after the rest, so that a reader that sees the same number before and after has a whole
// entry. Every word is stored with release and loaded with acquire: who sees a word of a newer call
// also sees that word 0 has changed.
// Record has one writer (the owner's issue lock), SetState another (its step lock, or its
// issue lock while nothing is queued); any number of readers. The state stands beside the sequence
// number that it belongs to, so that a state which comes when its entry has a newer call already changes
// nothing. Time: one TSC read per call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <sched.h>
#endif

#include "weft/types.h"

#include "base/wait.h"
#include "comm/group/collective.h"

namespace weft {

enum class RecordState : uint8_t { kIssued = 0, kRunning = 1, kDone = 2, kFailed = 3 };

struct alignas(64) RecorderEntry {
  std::atomic<uint64_t> words[8];
};

static_assert(sizeof(RecorderEntry) == 64);

// An entry as it stood in the segment; word 0 is 0 if it held no call or was being written.
using RecorderWords = std::array<uint64_t, 8>;

struct RecordedCall {
  uint64_t sequence = 0;  // from 1
  uint64_t ticks = 0;     // TSC when it was issued
  OpKind kind = OpKind::kBarrier;
  weft_dtype_t dtype = WEFT_UINT8;
  weft_op_t op = WEFT_SUM;
  uint8_t algorithm = 0;
  weft_numerics_t numerics = WEFT_NUMERICS_CANONICAL;
  uint32_t epoch = 0;
  uint64_t count = 0;
  int32_t root = 0;
  uint32_t signature = 0;
  uint64_t tag = 0;      // of the caller; 0 if there is a purpose
  uint64_t purpose = 0;  // as PackPurpose; 0: the call was the caller's own
  RecordState state = RecordState::kIssued;
};

// What the entries of calls with the same arguments have in common, as it stands in them.
struct RecordedArguments {
  uint64_t what = 0;
  uint64_t count = 0;
  uint64_t root_signature = 0;
  uint64_t tag = 0;
};

// Ticks of the recorder's clock.
inline uint64_t RecorderTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(MonotonicNs());
#endif
}

// As RecorderTicks(), and the number of the CPU that this thread runs on: one instruction tells both.
inline uint64_t RecorderTicks(uint32_t* cpu) {
#if defined(__x86_64__)
  constexpr uint32_t kCpuBits = 0xfff;  // Linux keeps the node's number above
  unsigned int processor = 0;
  const uint64_t ticks = __rdtscp(&processor);
  *cpu = processor & kCpuBits;
  return ticks;
#else
  *cpu = static_cast<uint32_t>(sched_getcpu());
  return RecorderTicks();
#endif
}

class RecorderRing {
 public:
  static constexpr uint64_t kEntryCount = 128;

  RecorderRing() = default;

  explicit RecorderRing(RecorderEntry* entries) : entries_(entries) {}

  // call.ticks is the caller's to set.
  void Record(const RecordedCall& call) const {
    Write(call.sequence, call.ticks, ArgumentsOf(call), call.state);
  }

  // For calls that are made again and again: `arguments` is ArgumentsOf such a call.
  void Record(uint64_t sequence, uint64_t ticks, const RecordedArguments& arguments) const {
    Write(sequence, ticks, arguments, RecordState::kIssued);
  }

  static RecordedArguments ArgumentsOf(const RecordedCall& call) {
    return {.what = static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.dtype) << 8 |
                    OpByte(call.op) << 16 | static_cast<uint64_t>(call.algorithm) << 24 |
                    (call.numerics == WEFT_NUMERICS_FAST ? kFast : 0) |
                    (call.purpose != 0 ? kHasPurpose : 0) | static_cast<uint64_t>(call.epoch) << 32,
            .count = call.count,
            .root_signature =
                static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32 | call.signature,
            .tag = call.purpose != 0 ? call.purpose : call.tag};
  }

  void SetState(uint64_t sequence, RecordState state) const {
    At(sequence).words[kState].store(StateWord(sequence, state), std::memory_order_release);
  }

  std::optional<RecordedCall> Find(uint64_t sequence) const;
  // The newest call, if any.
  std::optional<RecordedCall> Last() const;

  // Entry `index` (below kEntryCount).
  RecorderWords Copy(uint64_t index) const;
  // What the words say; nothing if there is no call, or one that this version does not know.
  static std::optional<RecordedCall> Decode(const RecorderWords& words);

 private:
  // Words of an entry.
  enum Word { kSequence, kTicks, kWhat, kCount, kRootSignature, kTag, kState };

  // A reduction as one byte: those of weft/types.h by their numbers, the two internal ones of dtype.h
  // from kInternalOps on, where weft/types.h has none.
  static constexpr uint64_t kInternalOps = 250;

  // In the word that says what was called: fast numerics; a purpose stands where the caller's tag would.
  static constexpr uint64_t kFast = uint64_t{1} << 30;
  static constexpr uint64_t kHasPurpose = uint64_t{1} << 31;

  static uint64_t OpByte(weft_op_t op) {
    const auto number = static_cast<uint64_t>(op);
    return (op < kOpPremulSum ? number : number - kOpPremulSum + kInternalOps) & 0xff;
  }

  static uint64_t StateWord(uint64_t sequence, RecordState state) {
    return sequence << 8 | static_cast<uint64_t>(state);
  }

  void Write(uint64_t sequence, uint64_t ticks, const RecordedArguments& arguments,
             RecordState state) const {
    constexpr auto kRelease = std::memory_order_release;
    std::atomic<uint64_t>* const words = At(sequence).words;
    words[kSequence].store(0, kRelease);
    words[kTicks].store(ticks, kRelease);
    words[kWhat].store(arguments.what, kRelease);
    words[kCount].store(arguments.count, kRelease);
    words[kRootSignature].store(arguments.root_signature, kRelease);
    words[kTag].store(arguments.tag, kRelease);
    words[kState].store(StateWord(sequence, state), kRelease);
    words[kSequence].store(sequence, kRelease);
  }

  RecorderEntry& At(uint64_t sequence) const { return entries_[sequence % kEntryCount]; }

  RecorderEntry* entries_ = nullptr;
};

}  // namespace weft
