// A wait is one word, so that it is read whole: 2 + whom it is for (bits 0-29; WEFT_ANY_SOURCE is -1), 0 if there is none; whether that one has
// come (30); whether it has begun (31); the sequence number above.
#include "comm/hierarchy/span_records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/point_to_point.h"

namespace weft {
namespace {

constexpr int kWaitSequenceShift = 32;
constexpr int kWaitRankOffset = 2;
constexpr uint32_t kWaitBegun = uint32_t{1} << 31;
constexpr uint32_t kWaitMet = uint32_t{1} << 30;
static_assert(WEFT_ANY_SOURCE == -1);

}  // namespace

struct SpanRecords::Record {
  alignas(64) std::atomic<uint64_t> wait;
  std::atomic<uint64_t> messages_ended;
  std::atomic<uint32_t> state;
  RecorderEntry calls[RecorderRing::kEntryCount];
  RecorderEntry messages[MessageRing::kEntryCount];
  LifecycleMemory events;
};

size_t SpanRecords::BytesFor(int rank_count) {
  return sizeof(Record) * static_cast<size_t>(rank_count);
}

SpanRecords::SpanRecords(std::byte* block, std::vector<int> ranks, int place)
    : block_(block), ranks_(std::move(ranks)), place_(place), messages_(At(place).messages) {
  std::memset(static_cast<void*>(&At(place)), 0, sizeof(Record));
}

SpanRecords::SpanRecords(int rank)
    : own_(new Record()),
      block_(reinterpret_cast<std::byte*>(own_.get())),
      ranks_{rank},
      place_(0),
      messages_(At(0).messages) {}

SpanRecords::~SpanRecords() = default;

SpanRecords::Record& SpanRecords::At(int place) const {
  return reinterpret_cast<Record*>(block_)[place];
}

int SpanRecords::PlaceOf(int rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return found != ranks_.end() && *found == rank ? static_cast<int>(found - ranks_.begin()) : -1;
}

RecorderRing SpanRecords::calls() const {
  return RecorderRing(At(place_).calls);
}

LifecycleLog SpanRecords::events() const {
  return LifecycleLog(&At(place_).events);
}

void SpanRecords::SetState(uint32_t state) const {
  At(place_).state.store(state, std::memory_order_release);
}

void SpanRecords::ShowWait(const std::optional<SpanWait>& wait) const {
  const uint64_t word = wait ? uint64_t{wait->sequence} << kWaitSequenceShift |
                                   (wait->begun ? kWaitBegun : 0) | (wait->met ? kWaitMet : 0) |
                                   static_cast<uint32_t>(wait->awaited + kWaitRankOffset)
                             : 0;
  At(place_).wait.store(word, std::memory_order_release);
}

// One writer at a time.
void SpanRecords::NoteMessageEnded() const {
  std::atomic<uint64_t>& ended = At(place_).messages_ended;
  ended.store(ended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

uint64_t SpanRecords::MessagesEnded(int rank) const {
  const int place = PlaceOf(rank);
  return place < 0 ? 0 : At(place).messages_ended.load(std::memory_order_acquire);
}

std::optional<SpanWait> SpanRecords::WaitOf(int rank) const {
  const int place = PlaceOf(rank);
  const uint64_t word = place < 0 ? 0 : At(place).wait.load(std::memory_order_acquire);
  const uint32_t whom = static_cast<uint32_t>(word) & ~(kWaitBegun | kWaitMet);
  if (whom == 0) return std::nullopt;
  return SpanWait{.sequence = static_cast<uint32_t>(word >> kWaitSequenceShift),
                  .awaited = static_cast<int>(whom) - kWaitRankOffset,
                  .begun = (static_cast<uint32_t>(word) & kWaitBegun) != 0,
                  .met = (static_cast<uint32_t>(word) & kWaitMet) != 0};
}

std::optional<RecordedCall> SpanRecords::CallOf(int rank, uint64_t sequence) const {
  const int place = PlaceOf(rank);
  return place < 0 ? std::nullopt : RecorderRing(At(place).calls).Find(sequence);
}

bool SpanRecords::HasCome(int rank, uint32_t sequence) const {
  const int place = PlaceOf(rank);
  const std::optional<RecordedCall> last =
      place < 0 ? std::nullopt : RecorderRing(At(place).calls).Last();
  return last && static_cast<int32_t>(static_cast<uint32_t>(last->sequence) - sequence) >= 0;
}

void SpanRecords::CopyTo(int rank, DumpedRank* dumped) const {
  const Record& record = At(PlaceOf(rank));
  dumped->state = record.state.load(std::memory_order_acquire);
  for (const RecorderEntry& entry : record.calls)
    dumped->entries.push_back(CopyEntry(entry));
  for (const RecorderEntry& entry : record.messages)
    dumped->messages.push_back(CopyEntry(entry));
  for (const RecorderEntry& entry : record.events.entries)
    dumped->events.push_back(CopyEntry(entry));
}

}  // namespace weft
