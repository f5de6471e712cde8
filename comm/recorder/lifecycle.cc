#include "comm/recorder/lifecycle.h"

namespace weft {
namespace {

// Words of an entry. What: kind (bits 0-7), rank + 1 (8-31), epoch (32-63). End: signal (0-31), exit code (32-63).
enum EventWord { kNumber, kTicks, kWhat, kResult, kEnd, kSequence, kOther };

constexpr int kRankShift = 8;
constexpr uint64_t kRankMask = 0xffffff;
constexpr int kHighShift = 32;

uint64_t Low(int32_t value) {
  return static_cast<uint32_t>(value);
}

}  // namespace

void LifecycleLog::Record(const LifecycleEvent& event) const {
  constexpr auto kRelease = std::memory_order_release;
  const uint64_t number = memory_->drawn.fetch_add(1, std::memory_order_relaxed) + 1;
  std::atomic<uint64_t>* const words = memory_->entries[number % kEntryCount].words;
  const uint64_t before = words[kNumber].exchange(0, std::memory_order_acq_rel);
  if (before == 0 && number > kEntryCount) return;  // somebody writes there
  words[kTicks].store(RecorderTicks(), kRelease);
  words[kWhat].store(static_cast<uint64_t>(event.kind) |
                         (Low(event.rank + 1) & kRankMask) << kRankShift |
                         uint64_t{event.epoch} << kHighShift,
                     kRelease);
  words[kResult].store(Low(event.result), kRelease);
  words[kEnd].store(Low(event.signal) | Low(event.exit_code) << kHighShift, kRelease);
  words[kSequence].store(static_cast<uint64_t>(event.sequence), kRelease);
  words[kOther].store(event.other, kRelease);
  words[kNumber].store(number, kRelease);
}

std::optional<LifecycleEvent> LifecycleLog::Decode(const RecorderWords& words) {
  const uint64_t kind = words[kWhat] & 0xff;
  if (words[kNumber] == 0 || kind == 0 || kind > kLifecycleKindMax) return {};
  LifecycleEvent event;
  event.number = words[kNumber];
  event.ticks = words[kTicks];
  event.kind = static_cast<LifecycleKind>(kind);
  event.epoch = static_cast<uint32_t>(words[kWhat] >> kHighShift);
  event.rank = static_cast<int32_t>(words[kWhat] >> kRankShift & kRankMask) - 1;
  event.result = static_cast<int32_t>(words[kResult]);
  event.signal = static_cast<int32_t>(words[kEnd]);
  event.exit_code = static_cast<int32_t>(words[kEnd] >> kHighShift);
  event.sequence = static_cast<int64_t>(words[kSequence]);
  event.other = words[kOther];
  return event;
}

const char* LifecycleKindName(LifecycleKind kind) {
  switch (kind) {
    case LifecycleKind::kJoined:
      return "joined";
    case LifecycleKind::kSplit:
      return "split";
    case LifecycleKind::kPeerEnded:
      return "peer_ended";
    case LifecycleKind::kFailed:
      return "failed";
    case LifecycleKind::kStalled:
      return "stalled";
    case LifecycleKind::kStuck:
      return "stuck";
    case LifecycleKind::kAcknowledged:
      return "acknowledged";
    case LifecycleKind::kLeaving:
      return "leaving";
    case LifecycleKind::kReconfigured:
      return "reconfigured";
  }
  return "unknown";
}

}  // namespace weft
