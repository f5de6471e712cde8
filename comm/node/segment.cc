#include "comm/node/segment.h"

#include <new>

namespace weft {

namespace {

// What a group costs per rank, whatever it does.
constexpr size_t kBytesPerRank =
    sizeof(RankControl) + kSlotCount * kSlotBytes + sizeof(RecorderMemory) + sizeof(MessageControl);
static_assert(kBytesPerRank + FailureBoard::Bytes(1) <= 64 << 10);

// So that what follows is aligned, too.
size_t FailureBoardBytes(int size) {
  constexpr size_t kUnit = ReconfigureBoard::kAlignment;
  static_assert(kUnit % alignof(ArrivalCounter) == 0);
  return (FailureBoard::Bytes(size) + kUnit - 1) / kUnit * kUnit;
}

size_t BoardBytes(int size) {
  return FailureBoardBytes(size) + ReconfigureBoard::Bytes(size);
}

}  // namespace

size_t Segment::Bytes(int size, bool with_counter) {
  return kHeaderBytes + static_cast<size_t>(size) * kBytesPerRank + BoardBytes(size) +
         (with_counter ? sizeof(ArrivalCounter) : 0);
}

Segment Segment::Create(char* base, int size, uint64_t group_id, uint32_t epoch,
                        const Tuning& tuning) {
  auto* const header = new (base) SegmentHeader{};
  header->version = kSegmentVersion;
  header->epoch = epoch;
  header->group_id = group_id;
  header->size = static_cast<uint32_t>(size);
  header->tuning = tuning;
  Segment segment(base, size);
  for (int rank = 0; rank < size; ++rank) {
    new (&segment.control(rank)) RankControl{};
    new (&segment.messages(rank)) MessageControl{};
  }
  FailureBoard::Create(header->failure, segment.BoardBase(), size);
  ReconfigureBoard::Create(segment.BoardBase() + FailureBoardBytes(size), size);
  if (tuning.combine != 0) new (&segment.arrival_counter()) ArrivalCounter{};
  header->magic = kSegmentMagic;
  return segment;
}

bool Segment::Valid(uint64_t group_id, uint32_t epoch) const {
  const SegmentHeader& found = header();
  return found.magic == kSegmentMagic && found.version == kSegmentVersion &&
         found.group_id == group_id && found.epoch == epoch &&
         found.size == static_cast<uint32_t>(size_);
}

RecorderMemory& Segment::recorder_memory(int rank) const {
  return reinterpret_cast<RecorderMemory*>(slot(size_, 0))[rank];
}

MessageControl& Segment::messages(int rank) const {
  return reinterpret_cast<MessageControl*>(&recorder_memory(size_))[rank];
}

char* Segment::BoardBase() const {
  return reinterpret_cast<char*>(&messages(size_));
}

FailureBoard Segment::board() const {
  return {header().failure, BoardBase(), size_};
}

ReconfigureBoard Segment::reconfigure_board() const {
  return {BoardBase() + FailureBoardBytes(size_), size_};
}

ArrivalCounter& Segment::arrival_counter() const {
  return *reinterpret_cast<ArrivalCounter*>(BoardBase() + BoardBytes(size_));
}

}  // namespace weft
