#include "shard/offload/queued_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/later.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr size_t kEndsAtOnce = 16;

bool IsAligned(uint64_t number) {
  return number % BlockStore::kAlignment == 0;
}

// For good: the system still works for it. Where leak checkers see that it was meant.
void LeaveBehind(std::unique_ptr<BlockQueue> queue) {
  static Mutex mutex;
  static auto* const left = new std::vector<std::unique_ptr<BlockQueue>>;
  MutexLock lock(mutex);
  left->push_back(std::move(queue));
}

}  // namespace

QueuedStore::QueuedStore(std::unique_ptr<BlockQueue> queue, Settings settings)
    : queue_(std::move(queue)), settings_(std::move(settings)), blocks_(queue_->depth()) {
  WEFT_CHECK(settings_.timeout_ns > 0);
  WEFT_CHECK(settings_.block_bytes > 0 && settings_.block_bytes < size_t{1} << 31);
  WEFT_CHECK(IsAligned(settings_.block_bytes));
  again_.reserve(blocks_.size());
  free_blocks_.reserve(blocks_.size());
  for (size_t tag = blocks_.size(); tag > 0; --tag)
    free_blocks_.push_back(tag - 1);
}

QueuedStore::~QueuedStore() {
  if (!origin_.here()) {
    // Its threads and its ring are the parent's.
    (void)queue_.release();
    return;
  }
  Fail(absl::CancelledError());  // what was not begun need not be
  if (under_way_ > 0) Reap(/*deadline_ns=*/0);
  const int64_t deadline_ns = Later(MonotonicNs(), settings_.timeout_ns);
  while (under_way_ > 0 && !timed_out_) {
    Reap(deadline_ns);
    timed_out_ = MonotonicNs() >= deadline_ns;
  }
  if (under_way_ == 0) return;
  LogWarn("offloaded state in ", settings_.place, ": ", under_way_,
          " transfers have not ended, and keep their memory until the process ends");
  LeaveBehind(std::move(queue_));
}

BlockStore::Ticket QueuedStore::StartRead(uint64_t offset, std::byte* to, size_t bytes) {
  return Begin(BlockRequest::kRead, offset, to, bytes);
}

BlockStore::Ticket QueuedStore::StartWrite(uint64_t offset, const std::byte* from, size_t bytes) {
  return Begin(BlockRequest::kWrite, offset, const_cast<std::byte*>(from), bytes);
}

BlockStore::Ticket QueuedStore::Begin(BlockRequest::Kind kind, uint64_t offset, std::byte* memory,
                                      size_t bytes) {
  WEFT_CHECK(IsAligned(offset) && IsAligned(bytes) &&
             IsAligned(reinterpret_cast<uintptr_t>(memory)));
  WEFT_CHECK(offset <= settings_.bytes && bytes <= settings_.bytes - offset);
  if (spare_.empty()) spare_.push_back(std::make_unique<Transfer>());
  *spare_.back() = {
      .ticket = ++last_ticket_, .kind = kind, .memory = memory, .offset = offset, .bytes = bytes};
  const bool begins = failure_.ok() && origin_.here();
  if (!begins) spare_.back()->begun_bytes = bytes;
  transfers_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  if (begins) Advance();
  return last_ticket_;
}

void QueuedStore::Advance() {
  if (!origin_.here()) return;
  if (under_way_ > 0) Reap(/*deadline_ns=*/0);
  Fill();
}

QueuedStore::Transfers::iterator QueuedStore::Find(Ticket ticket) {
  const auto at =
      std::find_if(transfers_.begin(), transfers_.end(),
                   [ticket](const auto& transfer) { return transfer->ticket == ticket; });
  WEFT_CHECK(at != transfers_.end());
  return at;
}

bool QueuedStore::Done(Ticket ticket) {
  if (!origin_.here()) return true;
  Advance();
  return timed_out_ || HasEnded(**Find(ticket));
}

absl::Status QueuedStore::Wait(Ticket ticket) {
  if (!origin_.here()) {
    return MakeError(WEFT_FORKED, StrCat("the offloaded state in ", settings_.place,
                                         " belongs to the process that has made it, and this is a "
                                         "forked child"));
  }
  const auto at = Find(ticket);
  const size_t index = static_cast<size_t>(at - transfers_.begin());
  Transfer& transfer = **at;
  Advance();
  if (!HasEnded(transfer)) {
    const int64_t deadline_ns = Later(MonotonicNs(), settings_.timeout_ns);
    while (!HasEnded(transfer) && !timed_out_) {
      WEFT_CHECK(under_way_ > 0);
      Reap(deadline_ns);
      Fill();
      if (!HasEnded(transfer)) timed_out_ = MonotonicNs() >= deadline_ns;
    }
  }
  absl::Status late;
  if (!HasEnded(transfer)) {
    late = TimeoutOf(transfer);
    Fail(late);
  }
  // A Fail() of its own may have ended it just now: its memory is the caller's again, but nobody relies on that.
  const bool ended = HasEnded(transfer);
  (ended ? spare_ : left_behind_).push_back(std::move(transfers_[index]));
  transfers_.erase(transfers_.begin() + static_cast<ptrdiff_t>(index));
  if (index < begun_count_) --begun_count_;
  return late.ok() ? failure_ : late;
}

void QueuedStore::Fill() {
  if (!failure_.ok()) return;
  bool room = true;
  while (room && !again_.empty()) {
    room = StartBlock(again_.back());
    if (room) again_.pop_back();
  }
  while (room && begun_count_ < transfers_.size()) {
    room = FillFrom(*transfers_[begun_count_]);
    if (room) ++begun_count_;
  }
  if (under_way_ > 0) queue_->Submit();
}

bool QueuedStore::FillFrom(Transfer& transfer) {
  while (transfer.begun_bytes < transfer.bytes) {
    if (free_blocks_.empty()) return false;
    const uint64_t tag = free_blocks_.back();
    const size_t bytes = std::min(settings_.block_bytes, transfer.bytes - transfer.begun_bytes);
    blocks_[tag] = {.transfer = &transfer,
                    .offset = transfer.offset + transfer.begun_bytes,
                    .memory = transfer.memory + transfer.begun_bytes,
                    .bytes = static_cast<uint32_t>(bytes)};
    if (!StartBlock(tag)) return false;
    free_blocks_.pop_back();
    transfer.begun_bytes += bytes;
    ++transfer.open_blocks;
  }
  return true;
}

bool QueuedStore::StartBlock(uint64_t tag) {
  const Block& block = blocks_[tag];
  if (!queue_->Start({.kind = block.transfer->kind,
                      .bytes = block.bytes,
                      .offset = block.offset,
                      .memory = block.memory,
                      .tag = tag}))
    return false;
  ++under_way_;
  return true;
}

void QueuedStore::Reap(int64_t deadline_ns) {
  std::array<BlockEnd, kEndsAtOnce> ends;
  size_t count = queue_->Take(ends, deadline_ns);
  while (count > 0) {
    for (size_t i = 0; i < count; ++i)
      Settle(ends[i]);
    count = count == ends.size() ? queue_->Take(ends, /*deadline_ns=*/0) : 0;
  }
}

void QueuedStore::Settle(const BlockEnd& end) {
  WEFT_CHECK(end.tag < blocks_.size() && under_way_ > 0);
  --under_way_;
  Block& block = blocks_[end.tag];
  if (end.moved >= int64_t{block.bytes}) return EndBlock(end.tag);
  if (end.moved < 0) {
    const int error_number = static_cast<int>(-end.moved);
    if (error_number == EINTR || error_number == EAGAIN) return TryAgain(end.tag, error_number);
    Fail(FileError(error_number, Attempt(block.transfer->kind, block.offset, block.bytes)));
    return EndBlock(end.tag);
  }
  // What follows must be aligned again.
  const auto moved = static_cast<uint32_t>(end.moved) / kAlignment * kAlignment;
  block.offset += moved;
  block.memory += moved;
  block.bytes -= static_cast<uint32_t>(moved);
  if (moved > 0) block.attempts = 0;
  TryAgain(end.tag, EIO);
}

void QueuedStore::TryAgain(uint64_t tag, int error_number) {
  Block& block = blocks_[tag];
  if (failure_.ok() && ++block.attempts <= kAttemptsMax) {
    again_.push_back(tag);
    return;
  }
  if (failure_.ok()) {
    Fail(FileError(error_number, StrCat(Attempt(block.transfer->kind, block.offset, block.bytes),
                                        ", ", kAttemptsMax, " times")));
  }
  EndBlock(tag);
}

void QueuedStore::EndBlock(uint64_t tag) {
  --blocks_[tag].transfer->open_blocks;
  free_blocks_.push_back(tag);
}

void QueuedStore::Fail(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  for (const uint64_t tag : again_)
    EndBlock(tag);
  again_.clear();
  for (const auto& transfer : transfers_)
    transfer->begun_bytes = transfer->bytes;
  begun_count_ = transfers_.size();
}

absl::Status QueuedStore::TimeoutOf(const Transfer& transfer) const {
  return MakeError(
      WEFT_TIMEOUT,
      StrCat(Attempt(transfer.kind, transfer.offset, transfer.bytes), " has not ended within ",
             static_cast<double>(settings_.timeout_ns) * 1e-9,
             " s; its memory is left to the system. Look at the disk, or raise WEFT_TIMEOUT_S"));
}

std::string QueuedStore::Attempt(BlockRequest::Kind kind, uint64_t offset, size_t bytes) const {
  return StrCat(kind == BlockRequest::kRead ? "reading " : "writing ", FormatBytes(bytes),
                " of offloaded state at byte ", offset, " of the file in ", settings_.place);
}

}  // namespace weft
