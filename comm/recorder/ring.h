// The flight recorder: the last operations of one rank, in the group's shared segment, so that peers
// can read them after their owner has died.
//
//   RecorderRing ring(entries);           // entries: in the segment, zeroed
//   ring.Record({.sequence = 412, .kind = ..., ...});
//   ...
//   ring.SetProgress(412, {.phase = CallPhase::kArriving, .waited_for = 3});   // where it takes long
//   ring.SetState(412, RecordState::kDone);
//   std::optional<RecordedCall> call = ring.Find(412);   // any process
//
// The entry of a call (entry.h) has its sequence number in word 0.
// Record has one writer (the owner's issue lock), SetState and SetProgress another (its step lock, or its
// issue lock while nothing is queued); any number of readers. State and progress stand beside the sequence
// number that they belong to, so that one which comes when its entry has a newer call already changes
// nothing. Time: one TSC read per call. A call that never takes long writes no progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "weft/types.h"

#include "comm/group/collective.h"
#include "comm/recorder/call_progress.h"
#include "comm/recorder/entry.h"
#include "comm/recorder/ticks.h"

namespace weft {

enum class RecordState : uint8_t { kIssued = 0, kRunning = 1, kDone = 2, kFailed = 3 };

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
  CallProgress progress;  // as last shown; none of a call that is done
};

// What the entries of calls with the same arguments have in common, as it stands in them.
struct RecordedArguments {
  uint64_t what = 0;
  uint64_t count = 0;
  uint64_t root_signature = 0;
  uint64_t tag = 0;
};

static_assert(sizeof(RecordedArguments) == 32);

class RecorderRing {
 public:
  static constexpr uint64_t kEntryCount = 128;

  RecorderRing() = default;

  explicit RecorderRing(RecorderEntry* entries) : entries_(entries) {}

  // call.ticks is the caller's to set. It is issued: its state and progress follow.
  void Record(const RecordedCall& call) const {
    Record(call.sequence, call.ticks, ArgumentsOf(call));
  }

  // For calls that are made again and again: `arguments` is ArgumentsOf such a call.
  void Record(uint64_t sequence, uint64_t ticks, const RecordedArguments& arguments) const {
    constexpr auto kRelease = std::memory_order_release;
    std::atomic<uint64_t>* const words = At(sequence).words;
    words[kSequence].store(0, kRelease);
    words[kTicks].store(ticks, kRelease);
    words[kWhat].store(arguments.what, kRelease);
    words[kCount].store(arguments.count, kRelease);
    words[kRootSignature].store(arguments.root_signature, kRelease);
    words[kTag].store(arguments.tag, kRelease);
    // The state in the entry is of an older call, so it says of this one that it is issued.
    words[kProgress].store(0, kRelease);
    words[kSequence].store(sequence, kRelease);
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

  // Of a call in a group of that epoch.
  static RecordedArguments ArgumentsOf(const Collective& call, uint32_t epoch, uint32_t signature);

  // What the arguments say, as Decode; of no sequence number, and issued at no time.
  static std::optional<RecordedCall> CallOf(const RecordedArguments& arguments);

  void SetState(uint64_t sequence, RecordState state) const {
    At(sequence).words[kState].store(StateWord(sequence, state), std::memory_order_release);
  }

  void SetProgress(uint64_t sequence, const CallProgress& progress) const {
    At(sequence).words[kProgress].store(PackProgress(progress, sequence / kEntryCount),
                                        std::memory_order_release);
  }

  std::optional<RecordedCall> Find(uint64_t sequence) const;
  // The newest call, if any.
  std::optional<RecordedCall> Last() const;

  // Entry `index` (below kEntryCount).
  RecorderWords Copy(uint64_t index) const { return CopyEntry(entries_[index]); }

  // What the words say; nothing if there is no call, or one that this version does not know.
  static std::optional<RecordedCall> Decode(const RecorderWords& words);

 private:
  // Words of an entry.
  enum Word { kSequence, kTicks, kWhat, kCount, kRootSignature, kTag, kState, kProgress };

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

  RecorderEntry& At(uint64_t sequence) const { return entries_[sequence % kEntryCount]; }

  RecorderEntry* entries_ = nullptr;
};

}  // namespace weft
