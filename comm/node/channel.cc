#include "comm/node/channel.h"

#include <cstring>

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kOrdered = std::memory_order_seq_cst;

char* LineAt(Channel& channel, uint32_t position) {
  return channel.lines[position % kRingLines];
}

}  // namespace

bool ChannelWriter::HasRoom(uint32_t lines) {
  if (produced_ + lines - consumed_ <= kRingLines) return true;
  consumed_ = channel_->consumed.load(kAcquire);
  if (produced_ + lines - consumed_ <= kRingLines) return true;
  // Either the receiver sees that this rank is starved, or this rank sees what it has consumed.
  channel_->starved.store(1, kOrdered);
  consumed_ = channel_->consumed.load(kOrdered);
  return produced_ + lines - consumed_ <= kRingLines;
}

bool ChannelWriter::Write(MessageHeader header, const void* payload, size_t bytes) {
  const uint32_t lines = RecordLines(bytes);
  const uint32_t tail = kRingLines - produced_ % kRingLines;
  const uint32_t skipped = tail < lines ? tail : 0;
  if (!HasRoom(skipped + lines)) return false;
  if (channel_->starved.load(std::memory_order_relaxed) != 0) {
    channel_->starved.store(0, std::memory_order_relaxed);
  }
  if (skipped > 0) {
    const MessageHeader skip{.lines = skipped, .kind = RecordKind::kSkip};
    std::memcpy(LineAt(*channel_, produced_), &skip, sizeof(skip));
  }
  header.lines = lines;
  char* const to = LineAt(*channel_, produced_ + skipped);
  std::memcpy(to, &header, sizeof(header));
  if (bytes > 0) std::memcpy(to + sizeof(header), payload, bytes);
  produced_ += skipped + lines;
  channel_->produced.store(produced_, kRelease);
  return true;
}

ChannelWriter::Found ChannelWriter::NextReply(Reply* reply) {
  const uint32_t waiting = channel_->replied.load(kAcquire) - answered_;
  if (waiting == 0) return Found::kNone;
  if (waiting > kReplyCount) return Found::kCorrupt;
  *reply = channel_->replies[answered_ % kReplyCount];
  channel_->answered.store(++answered_, kRelease);
  return Found::kReply;
}

void ChannelWriter::SetStage(char* stage, uint64_t heap_offset) {
  stage_ = stage;
  channel_->stage_offset.store(heap_offset, kRelease);
}

char* ChannelWriter::FreeHalf() {
  if (staged_ - channel_->drained.load(kAcquire) >= kStreamHalves) return nullptr;
  return stage_ + static_cast<size_t>(staged_ % kStreamHalves) * kStreamHalfBytes;
}

void ChannelWriter::PublishChunk() {
  channel_->staged.store(++staged_, kRelease);
}

bool ChannelWriter::Drained(uint32_t chunk) const {
  return static_cast<int32_t>(channel_->drained.load(kAcquire) - chunk) >= 0;
}

bool ChannelReader::Refresh() {
  produced_ = channel_->produced.load(kAcquire);
  return produced_ - consumed_ <= kRingLines;
}

bool ChannelReader::Sound(const MessageHeader& header, uint32_t available) const {
  const uint32_t tail = kRingLines - consumed_ % kRingLines;
  if (header.lines == 0 || header.lines > available || header.lines > tail) return false;
  if (header.kind == RecordKind::kSkip) return header.lines == tail;
  const size_t element = DtypeSize(static_cast<weft_dtype_t>(header.dtype));
  size_t bytes = 0;
  if (element == 0 || __builtin_mul_overflow(header.count, element, &bytes)) return false;
  switch (header.kind) {
    case RecordKind::kEager:
      return bytes <= kEagerBytes && header.lines == RecordLines(bytes);
    case RecordKind::kRts:
    case RecordKind::kReadableRts:  // whatever its address: only the kernel looks there
      return header.lines == 1 && bytes > kEagerBytes && bytes <= PTRDIFF_MAX;
    case RecordKind::kHeapRts:
      return header.lines == 1 && bytes > kEagerBytes && sender_->MayHold(header.place, bytes);
    default:
      return false;
  }
}

ChannelReader::Found ChannelReader::Look(MessageHeader* header, const char** payload) {
  for (int skips = 0; produced_ != consumed_; ++skips) {
    const char* const line = LineAt(*channel_, consumed_);
    std::memcpy(header, line, sizeof(*header));
    if (skips > 1 || !Sound(*header, produced_ - consumed_)) return Found::kCorrupt;
    if (header->kind != RecordKind::kSkip) {
      *payload = line + sizeof(*header);
      return Found::kRecord;
    }
    consumed_ += header->lines;
  }
  return Found::kNone;
}

bool ChannelReader::PublishConsumed() {
  if (published_ == consumed_) return false;
  published_ = consumed_;
  channel_->consumed.store(consumed_, kOrdered);
  return channel_->starved.load(kOrdered) != 0;
}

bool ChannelReader::CanReply() const {
  return replied_ - channel_->answered.load(kAcquire) < kReplyCount;
}

void ChannelReader::PublishReply(uint32_t rts, Reply::Kind kind) {
  channel_->replies[replied_ % kReplyCount] = Reply{rts, kind};
  channel_->replied.store(++replied_, kRelease);
}

ChannelReader::Found ChannelReader::NextChunk(const char** chunk) {
  const uint32_t waiting = channel_->staged.load(kAcquire) - drained_;
  if (waiting == 0) return Found::kNone;
  if (waiting > kStreamHalves) return Found::kCorrupt;
  if (stage_ == nullptr) {
    stage_ = sender_->At(channel_->stage_offset.load(kAcquire), kStreamHalves * kStreamHalfBytes);
    if (stage_ == nullptr) return Found::kCorrupt;
  }
  *chunk = stage_ + static_cast<size_t>(drained_ % kStreamHalves) * kStreamHalfBytes;
  return Found::kRecord;
}

void ChannelReader::PublishDrained() {
  channel_->drained.store(++drained_, kRelease);
}

}  // namespace weft
