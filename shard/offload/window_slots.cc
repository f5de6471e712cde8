#include "shard/offload/window_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace weft {

WindowSlots::WindowSlots(BlockStore& store, std::vector<WindowPlace> places,
                         std::span<std::byte> memory, size_t slot_bytes)
    : store_(store), places_(std::move(places)) {
  for (size_t at = 0; slot_bytes > 0 && at + slot_bytes <= memory.size(); at += slot_bytes)
    slots_.push_back({.memory = memory.data() + at});
}

void WindowSlots::Expect(std::vector<int> windows) {
  expected_ = std::move(windows);
  next_ = 0;
  ReadAhead();
}

WindowSlots::Slot* WindowSlots::Find(int window) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.window == window; });
  return found == slots_.end() ? nullptr : &*found;
}

bool WindowSlots::IsAwaited(int window) const {
  const size_t end = std::min(expected_.size(), next_ + slots_.size());
  for (size_t i = next_; i < end; ++i) {
    if (expected_[i] == window) return true;
  }
  return false;
}

WindowSlots::Slot* WindowSlots::Idle(bool awaited_too) {
  Slot* idle = nullptr;
  for (Slot& slot : slots_) {
    if (&slot == visited_) continue;
    // What has ended is noted; reads that were begun in vain end, too.
    if (slot.ticket != 0 && store_.Done(slot.ticket)) (void)WaitFor(slot);
    if (slot.ticket != 0) continue;
    if (slot.window != kNone && !awaited_too && IsAwaited(slot.window)) continue;
    if (idle == nullptr || slot.used < idle->used) idle = &slot;
  }
  return idle;
}

absl::Status WindowSlots::Free(Slot** slot) {
  *slot = Idle(/*awaited_too=*/false);
  if (*slot != nullptr) return failure_;
  // A write is the way in which a slot gets free; what was read ahead is the last to go.
  for (const bool writes : {true, false}) {
    Slot* oldest = nullptr;
    for (Slot& other : slots_) {
      if (&other == visited_ || other.ticket == 0 || other.writes != writes) continue;
      if (oldest == nullptr || other.used < oldest->used) oldest = &other;
    }
    if (oldest == nullptr) continue;
    WEFT_RETURN_IF_ERROR(WaitFor(*oldest));
    *slot = oldest;
    return absl::OkStatus();
  }
  *slot = Idle(/*awaited_too=*/true);
  WEFT_CHECK(*slot != nullptr);
  return failure_;
}

absl::Status WindowSlots::WaitFor(Slot& slot) {
  const absl::Status status = Await(std::exchange(slot.ticket, 0));
  slot.writes = false;
  if (!status.ok()) slot.window = kNone;
  return status;
}

absl::Status WindowSlots::Await(BlockStore::Ticket ticket) {
  const absl::Status status = store_.Wait(ticket);
  memory_is_lost_ = memory_is_lost_ || ResultOf(status) == WEFT_TIMEOUT;
  if (failure_.ok()) failure_ = status;
  return status;
}

void WindowSlots::StartRead(Slot& slot, int window) {
  const WindowPlace& place = places_[static_cast<size_t>(window)];
  slot.window = window;
  slot.used = ++clock_;
  slot.ticket = store_.StartRead(place.offset, slot.memory, place.bytes);
  slot.writes = false;
}

void WindowSlots::ReadAhead() {
  store_.Advance();
  const size_t end = std::min(expected_.size(), next_ + slots_.size());
  for (size_t i = next_; i < end; ++i) {
    const int window = expected_[i];
    if (!failure_.ok() || window == window_) continue;
    if (places_[static_cast<size_t>(window)].bytes == 0 || Find(window) != nullptr) continue;
    Slot* const slot = Idle(/*awaited_too=*/false);
    if (slot == nullptr) return;
    StartRead(*slot, window);
  }
}

void WindowSlots::NoteVisit(int window) {
  if (next_ < expected_.size() && expected_[next_] == window) ++next_;
}

absl::Status WindowSlots::Visit(int window, bool changes) {
  WEFT_RETURN_IF_ERROR(failure_);
  if (window == window_) {
    NoteVisit(window);
    // It may still be being written since the visit before.
    if (changes && visited_ != nullptr && visited_->ticket != 0)
      WEFT_RETURN_IF_ERROR(WaitFor(*visited_));
    changed_ = changed_ || changes;
    return absl::OkStatus();
  }
  WEFT_RETURN_IF_ERROR(Leave());
  NoteVisit(window);
  if (places_[static_cast<size_t>(window)].bytes == 0) {
    window_ = window;
    return absl::OkStatus();
  }
  Slot* slot = Find(window);
  if (slot == nullptr) {
    WEFT_RETURN_IF_ERROR(Free(&slot));
    StartRead(*slot, window);
  }
  visited_ = slot;
  slot->used = ++clock_;
  ReadAhead();
  if (slot->ticket != 0 && (changes || !slot->writes)) {
    absl::Status came = WaitFor(*slot);
    if (!came.ok()) {
      visited_ = nullptr;
      return came;
    }
  }
  window_ = window;
  changed_ = changes;
  return absl::OkStatus();
}

absl::Status WindowSlots::Leave() {
  if (visited_ != nullptr && changed_) {
    const WindowPlace& place = places_[static_cast<size_t>(window_)];
    visited_->ticket = store_.StartWrite(place.offset, visited_->memory, place.bytes);
    visited_->writes = true;
  }
  visited_ = nullptr;
  window_ = kNone;
  changed_ = false;
  ReadAhead();
  return failure_;
}

absl::Status WindowSlots::Borrow(Slot** slot) {
  WEFT_RETURN_IF_ERROR(Free(slot));
  (*slot)->window = kNone;
  return absl::OkStatus();
}

absl::Status WindowSlots::MoveBlocks(const Slot& slot, int window, size_t begin, size_t end,
                                     bool writes) {
  begin = static_cast<size_t>(RoundDownToBlock(begin));
  end = static_cast<size_t>(RoundUpToBlock(end));
  const uint64_t offset = places_[static_cast<size_t>(window)].offset + begin;
  std::byte* const memory = slot.memory + begin;
  return Await(writes ? store_.StartWrite(offset, memory, end - begin)
                      : store_.StartRead(offset, memory, end - begin));
}

absl::Status WindowSlots::Read(int window, size_t begin, size_t bytes, void* to) {
  WEFT_CHECK(window_ == kNone);
  WEFT_RETURN_IF_ERROR(failure_);
  Slot* slot = Find(window);
  if (slot == nullptr) {
    WEFT_RETURN_IF_ERROR(Borrow(&slot));
    WEFT_RETURN_IF_ERROR(MoveBlocks(*slot, window, begin, begin + bytes, /*writes=*/false));
  } else if (slot->ticket != 0 && !slot->writes) {
    WEFT_RETURN_IF_ERROR(WaitFor(*slot));
  }
  std::memcpy(to, slot->memory + begin, bytes);
  return absl::OkStatus();
}

absl::Status WindowSlots::Write(int window, size_t begin, size_t bytes, const void* from) {
  WEFT_CHECK(window_ == kNone);
  WEFT_RETURN_IF_ERROR(failure_);
  Slot* slot = Find(window);
  if (slot == nullptr) {
    WEFT_RETURN_IF_ERROR(Borrow(&slot));
    // What else is in the first and the last block stays.
    const size_t last = begin + bytes - 1;
    WEFT_RETURN_IF_ERROR(MoveBlocks(*slot, window, begin, begin + 1, /*writes=*/false));
    WEFT_RETURN_IF_ERROR(MoveBlocks(*slot, window, last, last + 1, /*writes=*/false));
  } else if (slot->ticket != 0) {
    WEFT_RETURN_IF_ERROR(WaitFor(*slot));
  }
  std::memcpy(slot->memory + begin, from, bytes);
  return MoveBlocks(*slot, window, begin, begin + bytes, /*writes=*/true);
}

absl::Status WindowSlots::AwaitWrites() {
  for (Slot& slot : slots_) {
    if (slot.ticket != 0 && slot.writes) WEFT_RETURN_IF_ERROR(WaitFor(slot));
  }
  return failure_;
}

absl::Status WindowSlots::Drain() {
  absl::Status drained = Leave();
  for (Slot& slot : slots_) {
    if (slot.ticket == 0) continue;
    const absl::Status status = WaitFor(slot);
    if (drained.ok()) drained = status;
  }
  return drained;
}

}  // namespace weft
