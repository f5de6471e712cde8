// The last sends and receives of one rank, in the group's shared segment: what ring.h is for collectives, with numbers of the
// rank's own, because messages of a group have no order that its ranks share.
//
//   MessageRing ring(entries);                                         // entries: in the segment, zeroed
//   const MessageRing::Place place = ring.Record(ticks, message);      // issued
//   MessageRing::SetState(place, MessageState::kDone);                 // later; nothing, if a newer message is there
//   std::optional<RecordedMessage> message = MessageRing::Decode(ring.Copy(index));   // any process
//
// The entry of a message (entry.h) has its number in word 0.
// Thread-safety: all that writes is called under the rank's message lock; any number of readers. Time: one TSC read per
// message.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "comm/group/message.h"
#include "comm/recorder/entry.h"

namespace weft {

// Numbers stand in flight-recorder files: never reused. kMatched: the other side has it, and its bytes are on their way.
enum class MessageState : uint8_t { kIssued = 0, kMatched = 1, kDone = 2, kFailed = 3 };

struct RecordedMessage {
  uint64_t number = 0;  // from 1
  uint64_t ticks = 0;   // RecorderTicks() when it was issued
  bool is_send = false;
  bool is_probe = false;  // has no count and type
  weft_dtype_t dtype = WEFT_UINT8;
  int peer = 0;     // as the caller named it; WEFT_ANY_SOURCE
  int source = -1;  // of a receive, if it was shown: whose message it was matched with
  uint64_t count = 0;
  uint64_t tag = 0;
  MessageState state = MessageState::kIssued;
  uint64_t moved_bytes = 0;  // of a large one that takes long, as last shown
};

class MessageRing {
 public:
  static constexpr uint64_t kEntryCount = 64;

  // Where a message was recorded.
  struct Place {
    RecorderEntry* entry = nullptr;
    uint64_t number = 0;
  };

  MessageRing() = default;

  explicit MessageRing(RecorderEntry* entries) : entries_(entries) {}

  Place Record(uint64_t ticks, const Message& message) {
    constexpr auto kRelease = std::memory_order_release;
    const uint64_t number = ++last_;
    RecorderEntry& entry = entries_[number % kEntryCount];
    std::atomic<uint64_t>* const words = entry.words;
    words[kNumber].store(0, kRelease);
    words[kTicks].store(ticks, kRelease);
    words[kWhat].store(WhatWord(message), kRelease);
    words[kCount].store(message.count, kRelease);
    words[kTag].store(message.tag, kRelease);
    words[kState].store(0, kRelease);
    words[kCourse].store(0, kRelease);
    words[kNumber].store(number, kRelease);
    return {&entry, number};
  }

  // Of no place nothing is recorded.
  static void SetState(const Place& place, MessageState state) {
    Set(place, kState, static_cast<uint64_t>(state));
  }

  // `source`: of a receive that has been matched, else -1.
  static void SetCourse(const Place& place, uint64_t moved_bytes, int source) {
    Set(place, kCourse,
        (moved_bytes & kMovedMask) | static_cast<uint64_t>(source + 1) << kSourceShift);
  }

  // Entry `index` (below kEntryCount).
  RecorderWords Copy(uint64_t index) const { return CopyEntry(entries_[index]); }

  // What the words say; nothing if there is no message, or one that this version does not know.
  static std::optional<RecordedMessage> Decode(const RecorderWords& words);

 private:
  // Words of an entry.
  enum Word { kNumber, kTicks, kWhat, kCount, kTag, kState, kCourse };

  // In the word that says what it is: dtype (bits 0-7), send (8), probe (9), peer (32-63).
  static constexpr int kSendShift = 8;
  static constexpr int kProbeShift = 9;
  static constexpr int kPeerShift = 32;
  // In that of its course: bytes that were moved (0-47), source + 1 (48-63).
  static constexpr int kSourceShift = 48;
  static constexpr uint64_t kMovedMask = (uint64_t{1} << kSourceShift) - 1;

  static uint64_t WhatWord(const Message& message) {
    return static_cast<uint32_t>(message.dtype) |
           uint64_t{static_cast<uint32_t>(message.peer)} << kPeerShift |
           static_cast<uint64_t>(message.is_send) << kSendShift |
           static_cast<uint64_t>(message.is_probe) << kProbeShift;
  }

  // The lock keeps a newer message from coming in between.
  static void Set(const Place& place, Word word, uint64_t value) {
    if (place.entry == nullptr) return;
    std::atomic<uint64_t>* const words = place.entry->words;
    if (words[kNumber].load(std::memory_order_relaxed) != place.number) return;
    words[word].store(value, std::memory_order_release);
  }

  RecorderEntry* entries_ = nullptr;
  uint64_t last_ = 0;  // number that was given
};

}  // namespace weft
