// How far a call has come: its phase, for whom its rank waits, which round of how many. One word, so that it is written and
// read whole without a lock.
//
//   const uint64_t word = PackProgress({.phase = CallPhase::kReducing, .waited_for = 2, .round = 3, .rounds = 8}, cycle);
//   const CallProgress shown = UnpackProgress(word, cycle);      // of another cycle: nothing
//   DescribeProgress(shown);                                     // "waits for rank 2 to stage its part of round 3 of 8"
//
// `cycle` says to which call the word belongs, of those that have had the same entry of a ring: a word that was written late
// tells nothing of a newer call.
// Thread-safety: pure functions of values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace weft {

// What a rank does, or what keeps it from going on. Numbers stand in flight-recorder files: never reused.
enum class CallPhase : uint8_t {
  kIssued = 0,     // nothing was shown: it has just begun, or it takes no time
  kEntering = 1,   // before its arrival: earlier calls use the place that it needs
  kArriving = 2,   // it has called; others have not
  kStaging = 3,    // its part of a round, which others are to read
  kReducing = 4,   // its piece of a round, from what others have staged
  kGathering = 5,  // what others have staged or reduced for it
  kDirect = 6,     // in the callers' buffers: its part, then until the others have done theirs
  kTurn = 7,       // to write a result that several ranks have in one place
  kWriters = 8,    // until the others have written their parts of such a result
  kMessages = 9,   // over several islands: a message from another rank, or for it to take one
};
constexpr uint64_t kCallPhaseCount = 10;

struct CallProgress {
  static constexpr int kNobody = -1;    // it works
  static constexpr int kAnyOther = -2;  // whoever has not come yet
  static constexpr int kRankMax = 16'381;
  static constexpr uint64_t kRoundsMax = 16'383;  // more are told as these

  CallPhase phase = CallPhase::kIssued;
  int waited_for = kNobody;  // a rank of the group
  uint64_t round = 0;        // from 1
  uint64_t rounds = 0;       // 0: it has none

  bool operator==(const CallProgress&) const = default;
};

// Fields of a word, from bit 0 on: phase (6 bits), waited_for + 2 (14), round (14), rounds (14), the low bits of `cycle` (16).
constexpr uint64_t kProgressPhaseMask = 0x3f;
constexpr uint64_t kProgressFieldMask = 0x3fff;
constexpr int kProgressRankShift = 6;
constexpr int kProgressRoundShift = 20;
constexpr int kProgressRoundsShift = 34;
constexpr int kProgressCycleShift = 48;
constexpr uint64_t kProgressCycleMask = 0xffff;
constexpr int kProgressRankOffset = 2;  // so that no waited_for is negative

// Inline, because it is written once per round of an operation.
inline uint64_t PackProgress(const CallProgress& progress, uint64_t cycle) {
  return static_cast<uint64_t>(progress.phase) |
         static_cast<uint64_t>(progress.waited_for + kProgressRankOffset) << kProgressRankShift |
         std::min(progress.round, CallProgress::kRoundsMax) << kProgressRoundShift |
         std::min(progress.rounds, CallProgress::kRoundsMax) << kProgressRoundsShift |
         (cycle & kProgressCycleMask) << kProgressCycleShift;
}

// Nothing, if the word is of another cycle or has a phase that this version does not know.
CallProgress UnpackProgress(uint64_t word, uint64_t cycle);

// "issued", "arriving", "reducing"...
const char* CallPhaseName(CallPhase phase);

// "waits for rank 2 to arrive", "reduces round 3 of 8"; empty if nothing was shown.
std::string DescribeProgress(const CallProgress& progress);

}  // namespace weft
