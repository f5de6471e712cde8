#include "comm/engine/schedule_run.h"

#include <algorithm>
#include <cstring>

#include "base/cache_line.h"
#include "base/check.h"

namespace weft {
namespace {

// Slots where the schedule needs fewer: so many ops are kept from one call to the next.
constexpr uint32_t kSlotsMin = 8;

size_t BytesOfScratch(const ScratchBuffer& buffer, const UnitArithmetic& arithmetic) {
  const size_t bytes = buffer.units * arithmetic.BytesOf(buffer.form);
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

}  // namespace

size_t ScheduleRun::ScratchBytes(const CollectiveSchedule& schedule, int participant,
                                 const UnitArithmetic& arithmetic) {
  size_t bytes = 0;
  for (const ScratchBuffer& buffer : schedule.ScratchOf(participant))
    bytes += BytesOfScratch(buffer, arithmetic);
  return bytes;
}

ScheduleRun::ScheduleRun(const CollectiveSchedule& schedule, int participant,
                         const UnitArithmetic& arithmetic)
    : schedule_(schedule),
      participant_(participant),
      arithmetic_(arithmetic),
      slots_(std::max(schedule.window(), kSlotsMin)) {
  size_t next = 0;
  for (const ScratchBuffer& buffer : schedule.ScratchOf(participant)) {
    scratch_.push_back({next, buffer.form});
    next += BytesOfScratch(buffer, arithmetic);
  }
}

void ScheduleRun::Begin(const RunMemory& memory, const RunRoute& route) {
  memory_ = memory;
  route_ = route;
  first_ = 0;
  failed_ = nullptr;
  exhausted_ = listed_;
  if (!listed_) {
    next_ = 0;
    ops_ = schedule_.OpsOf(participant_);
    return;
  }
  for (uint32_t index = 0; index < next_; ++index)
    slots_[index].state = OpState::kWaits;
}

bool ScheduleRun::Step() {
  bool any = false;
  for (bool again = true; again && failed_ == nullptr;) {
    again = Fetch();
    for (uint32_t index = first_; index != next_; ++index) {
      Slot& slot = SlotOf(index);
      if (slot.state == OpState::kWaits && MayStart(slot.op)) {
        Start(&slot);
        again = true;
      }
      if (slot.state != OpState::kUnderWay) continue;
      const TransferState state = slot.transfer.state();
      if (state == TransferState::kPosted) continue;
      if (state != TransferState::kDone) {
        failed_ = &slot.transfer;
        return true;
      }
      slot.state = OpState::kEnded;
      again = true;
    }
    while (first_ != next_ && SlotOf(first_).state == OpState::kEnded)
      ++first_;
    any = any || again;
  }
  return any;
}

int ScheduleRun::WaitsFor() const {
  int found = -1;
  for (uint32_t index = first_; index != next_; ++index) {
    const Slot& slot = slots_[index % slots_.size()];
    if (slot.state != OpState::kUnderWay) continue;
    if (!slot.transfer.is_send) return slot.op.peer;
    found = slot.op.peer;
  }
  return found;
}

bool ScheduleRun::HasMet(int peer) const {
  for (uint32_t index = first_; index != next_; ++index) {
    const Slot& slot = slots_[index % slots_.size()];
    if (slot.state == OpState::kUnderWay && slot.op.peer == peer && slot.transfer.Met())
      return true;
  }
  return false;
}

// Fills the window.
bool ScheduleRun::Fetch() {
  bool any = false;
  while (!exhausted_ && next_ - first_ < slots_.size()) {
    Slot& slot = SlotOf(next_);
    slot.op.Clear();
    if (!ops_->Next(&slot.op)) {
      exhausted_ = true;
      listed_ =
          next_ < slots_.size();  // of as many ops as slots the first one has just been cleared
      break;
    }
    slot.state = OpState::kWaits;
    ++next_;
    any = true;
  }
  return any;
}

// (S1)
bool ScheduleRun::MayStart(const ScheduleOp& op) {
  for (const OpRange& range : op.after) {
    uint32_t index = range.begin;
    if (index < first_) index += (first_ - index + range.step - 1) / range.step * range.step;
    for (; index < range.end; index += range.step) {
      if (SlotOf(index).state != OpState::kEnded) return false;
    }
  }
  return true;
}

void ScheduleRun::Start(Slot* slot) {
  const ScheduleOp& op = slot->op;
  const bool message = op.action == OpAction::kSend || op.action == OpAction::kRecv;
  const bool moves = op.units > 0 || (message && schedule_.sends_empty());
  slot->state = OpState::kEnded;
  if (!moves) return;  // (S5)
  if (message) {
    slot->state = OpState::kUnderWay;
    StartMessage(slot);
  } else if (memory_.sizes_only) {
    return;
  } else if (op.action == OpAction::kReduce) {
    RunReduce(op);
  } else {
    RunCopy(op);
  }
}

void ScheduleRun::StartMessage(Slot* slot) {
  const ScheduleOp& op = slot->op;
  const bool is_send = op.action == OpAction::kSend;
  const Place place = At(is_send ? op.from.front().place : op.to);
  slot->transfer = {.peer = route_.peers[static_cast<size_t>(op.peer)],
                    .stream = route_.stream,
                    .tag = op.tag,
                    .signature = route_.signature,
                    .record = route_.record,
                    .is_send = is_send,
                    .memory = place.units,
                    .bytes = op.units * arithmetic_.BytesOf(place.form)};
  if (is_send && route_.traffic != nullptr) route_.traffic->Count(op.peer, slot->transfer.bytes);
  route_.transport->Post(&slot->transfer);
}

void ScheduleRun::RunReduce(const ScheduleOp& op) {
  absl::InlinedVector<UnitSource, 8> sources;
  for (const SourceRun& run : op.from) {
    for (uint32_t i = 0; i < run.count; ++i) {
      const Place place = At({run.place.buffer, run.place.offset + i * run.stride});
      sources.push_back({place.units, place.form});
    }
  }
  const Place to = At(op.to);
  arithmetic_.Add(op.stage, to.form, sources, op.merges, to.units, op.units);
}

void ScheduleRun::RunCopy(const ScheduleOp& op) {
  const Place from = At(op.from.front().place);
  const Place to = At(op.to);
  WEFT_CHECK(from.form == to.form);
  if (from.units != to.units) {
    std::memcpy(to.units, from.units, op.units * arithmetic_.BytesOf(to.form));
  }
}

ScheduleRun::Place ScheduleRun::At(const UnitPlace& place) const {
  Place buffer;
  switch (place.buffer) {
    case kInputBuffer:
      buffer = {memory_.input, UnitForm::kElement};
      break;
    case kOutputBuffer:
      buffer = {memory_.output, UnitForm::kElement};
      break;
    case kPartialsBuffer:
      buffer = {memory_.partials, UnitForm::kAccumulator};
      break;
    default: {
      const Scratch& scratch = scratch_[place.buffer - kScratchBuffers];
      buffer = {memory_.scratch, scratch.form};
      if (!memory_.sizes_only) buffer.units += scratch.offset_bytes;
    }
  }
  if (!memory_.sizes_only) buffer.units += place.offset * arithmetic_.BytesOf(buffer.form);
  return buffer;
}

}  // namespace weft
