// A channel: what one rank has in its heap for its messages to one other rank of the group.
//
//   if (!writer.Write(header, payload)) ...                  // sender: no room now
//   reader.Refresh(); while (reader.Look(&header, &payload) == ChannelReader::Found::kRecord) ...
//
// A ring of 64-byte lines carries records: a header, then the payload of a message of at most
// WEFT_EAGER_BYTES, or the RTS (ready to send) of a larger one. A record is contiguous; what is left of the ring's
// end is filled by a skip record. A short ring of replies carries a CTS (clear to send) or a FIN for each RTS back. Private
// memory is streamed through two staging halves, chunk c through half c mod 2.
// Invariants (docs/design/005-messages.md has the proof); counters run modulo 2^32:
//  M1  produced and staged are written by the sender, consumed, drained and replied by the receiver,
//      answered by the sender, none ever falls.
//  M2  Line n is written only when n < consumed + kRingLines, and read only when n < produced.
//  M3  Half c mod 2 is written for chunk c only when drained >= c - 1, and read only when staged > c.
//  M4  Reply n is written only when n < answered + kReplyCount, and read only when n < replied.
//
// Thread-safety: none; a writer and a reader, each under its own rank's message lock. Never waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/point_to_point.h"

#include "base/cache_line.h"
#include "comm/node/node_peer.h"
#include "comm/select/tuning.h"

namespace weft {

constexpr uint32_t kRingLines = 512;  // a power of two, so that the counters may wrap
constexpr uint32_t kReplyCount = 16;
constexpr size_t kEagerBytes = WEFT_EAGER_BYTES;
constexpr size_t kStreamHalfBytes = kMessageChunkBytes;
constexpr uint32_t kStreamHalves = 2;

enum class RecordKind : uint16_t {
  kSkip = 0,     // nothing: go on at the ring's start
  kEager = 1,    // the payload follows
  kRts = 2,      // for private memory: the sender streams it once it has a CTS
  kHeapRts = 3,  // for memory at `place` in the sender's heap, to be copied from there
  // for private memory at address `place`: read from there by the kernel, or streamed as for kRts
  kReadableRts = 4,
};

struct MessageHeader {
  uint32_t lines = 0;  // of the record
  RecordKind kind = RecordKind::kSkip;
  uint16_t dtype = 0;
  uint32_t epoch = 0;
  uint32_t rts = 0;  // number of the RTS in its channel
  uint64_t tag = 0;
  uint64_t count = 0;
  uint64_t place = 0;
};

static_assert(sizeof(MessageHeader) == 40);

// The receiver's answer to an RTS: it waits for the stream, or has all of it.
struct Reply {
  enum Kind : uint32_t { kCts = 1, kFin = 2 };

  uint32_t rts = 0;
  uint32_t kind = 0;
};

struct Channel {
  // The sender's.
  alignas(128) std::atomic<uint32_t> produced;  // lines
  std::atomic<uint32_t> staged;                 // chunks
  std::atomic<uint32_t> answered;               // replies read
  std::atomic<uint32_t> starved;                // 1 while it waits for room in the ring
  std::atomic<uint64_t> stage_offset;  // of the halves, in its heap; before the first staged
  // The receiver's.
  alignas(128) std::atomic<uint32_t> consumed;  // lines
  std::atomic<uint32_t> drained;                // chunks
  std::atomic<uint32_t> replied;                // replies written
  alignas(64) Reply replies[kReplyCount];
  alignas(kCacheLineBytes) char lines[kRingLines][kCacheLineBytes];
};

// Lines of a record with `payload_bytes` behind its header.
constexpr uint32_t RecordLines(size_t payload_bytes) {
  return static_cast<uint32_t>((sizeof(MessageHeader) + payload_bytes + kCacheLineBytes - 1) /
                               kCacheLineBytes);
}

// The sender's end.
class ChannelWriter {
 public:
  ChannelWriter() = default;

  explicit ChannelWriter(Channel* channel) : channel_(channel) {}

  bool open() const { return channel_ != nullptr; }

  Channel& channel() const { return *channel_; }

  // Publishes a record with `bytes` of payload (lines and kind kSkip are not the caller's to set); false
  // if there is no room: then the receiver tells when there is.
  bool Write(MessageHeader header, const void* payload, size_t bytes);

  enum class Found { kNone, kReply, kCorrupt };
  Found NextReply(Reply* reply);

  // Where the next chunk goes, or nullptr while both halves are in use; needs SetStage().
  char* FreeHalf();
  void PublishChunk();

  void SetStage(char* stage, uint64_t heap_offset);

  bool has_stage() const { return stage_ != nullptr; }

  uint32_t staged() const { return staged_; }

  // True if the receiver has drained the chunks before `chunk`.
  bool Drained(uint32_t chunk) const;

 private:
  bool HasRoom(uint32_t lines);

  Channel* channel_ = nullptr;
  char* stage_ = nullptr;
  uint32_t produced_ = 0;
  uint32_t consumed_ = 0;  // as last seen
  uint32_t answered_ = 0;
  uint32_t staged_ = 0;
};

// The receiver's end. What comes from the sender is checked, not believed.
class ChannelReader {
 public:
  ChannelReader() = default;

  ChannelReader(Channel* channel, NodePeer* sender) : channel_(channel), sender_(sender) {}

  bool open() const { return channel_ != nullptr; }

  enum class Found { kNone, kRecord, kCorrupt };

  // Takes note of what has been produced until now; false if the counter makes no sense.
  bool Refresh();
  // The first record not consumed of those that Refresh() saw. A checked copy of its header; *payload
  // stays readable until PublishConsumed().
  Found Look(MessageHeader* header, const char** payload);

  void Consume(const MessageHeader& header) { consumed_ += header.lines; }

  // Gives consumed lines back; true if the sender waits for them and is to be told.
  bool PublishConsumed();

  bool CanReply() const;
  void PublishReply(uint32_t rts, Reply::Kind kind);

  // The next chunk; kNone while it has not been staged.
  Found NextChunk(const char** chunk);
  void PublishDrained();

  // Where the buffer of a heap RTS lies, as mapped here; errors if it is in a file that cannot be mapped. As NodePeer::Find().
  absl::StatusOr<char*> Find(uint64_t place, uint64_t bytes) const {
    return sender_->Find(place, bytes);
  }

 private:
  bool Sound(const MessageHeader& header, uint32_t available) const;

  Channel* channel_ = nullptr;
  NodePeer* sender_ = nullptr;
  const char* stage_ = nullptr;
  uint32_t produced_ = 0;  // as last seen
  uint32_t consumed_ = 0;
  uint32_t published_ = 0;  // of consumed_
  uint32_t replied_ = 0;
  uint32_t drained_ = 0;
};

}  // namespace weft
