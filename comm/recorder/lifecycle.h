// What has happened to a rank's membership in a group: that it joined, who it saw end, why the group ended. The last events of
// one rank, in the group's shared segment, beside its calls (ring.h) and messages (message_ring.h).
//
//   LifecycleLog log(memory);                    // memory: in the segment, zeroed
//   log.Record({.kind = LifecycleKind::kPeerEnded, .epoch = 1, .rank = 2, .signal = 9});
//   std::optional<LifecycleEvent> event = LifecycleLog::Decode(log.Copy(index));   // any process
//
// Events are rare, and any thread of the rank may have one to tell. So a writer draws a number and takes the entry that
// belongs to it by setting word 0 to 0 (entry.h). One that finds the entry being written, 32 events behind, gives its own up:
// nobody waits here.
//
// Thread-safety: Record by any thread of the rank that owns the log; any number of readers.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "comm/recorder/entry.h"
#include "comm/recorder/ticks.h"

namespace weft {

// Numbers stand in flight-recorder files: never reused. What the fields of an event mean, beside the epoch:
enum class LifecycleKind : uint8_t {
  kJoined = 1,  // other: the group's size
  kSplit =
      2,  // the group was split from another one: rank: of this one there, other: that group's id
  kPeerEnded =
      3,  // rank; signal or exit_code, where they are known; sequence: of the operation that needed it
  kFailed = 4,  // this rank has ended the group: result, rank: to blame, sequence: of the operation
  kStalled =
      5,  // rank: does not run, though its process lives; other: the letter of its state, as in /proc/PID/stat
  kStuck = 6,  // a wait of this rank was reported: rank: waited for, sequence: of the operation
  kAcknowledged =
      7,  // this rank has seen that the group has ended: result, rank: to blame, sequence
  kLeaving = 8,
  kReconfigured = 9,  // epoch: the old one, other: the new one
};
constexpr uint64_t kLifecycleKindMax = 9;

struct LifecycleEvent {
  uint64_t number = 0;  // from 1; Record gives it
  uint64_t ticks = 0;   // RecorderTicks(); Record takes it
  LifecycleKind kind = LifecycleKind::kJoined;
  uint32_t epoch = 0;
  int32_t rank = -1;   // of the group
  int32_t result = 0;  // weft_result_t
  int32_t signal = -1;
  int32_t exit_code = -1;
  int64_t sequence = -1;
  uint64_t other = 0;
};

// In the segment, zeroed.
struct LifecycleMemory {
  static constexpr uint64_t kEntryCount = 32;

  alignas(64) std::atomic<uint64_t> drawn;  // numbers
  RecorderEntry entries[kEntryCount];
};

class LifecycleLog {
 public:
  static constexpr uint64_t kEntryCount = LifecycleMemory::kEntryCount;

  LifecycleLog() = default;

  explicit LifecycleLog(LifecycleMemory* memory) : memory_(memory) {}

  void Record(const LifecycleEvent& event) const;

  // Entry `index` (below kEntryCount).
  RecorderWords Copy(uint64_t index) const { return CopyEntry(memory_->entries[index]); }

  // What the words say; nothing if there is no event, or one that this version does not know.
  static std::optional<LifecycleEvent> Decode(const RecorderWords& words);

 private:
  LifecycleMemory* memory_ = nullptr;
};

// "joined", "peer_ended"...
const char* LifecycleKindName(LifecycleKind kind);

}  // namespace weft
