// The headers on a link between two ranks: fixed in size, in the byte order of the machine, which both sides of a job share.
//
//   kAnnounce  a message waits for its grant: the receiver can see whether it is the one that it expects
//   kGrant     the receiver has room for all of a message: it may be sent
//   kData      a part of one, `bytes` from `offset` on, which follow
//   kRoom      `bytes` of what was sent ahead of a grant have been taken: so much more may be; none: said for `received` alone
//   kLeave     nothing follows, and the end of the connection is the end of the link
//   kPlaced    as kData, but the part comes beside the stream's bytes (byte_stream.h)
//   kGiveUp    connection `tag` is of no use any more: of what was said on it `offset` bytes were read
//
// Each says how much of the stream has come when it is said, so where both sides have something to say nobody has to say that alone.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/transport/transfer.h"

namespace weft {

constexpr uint32_t kLinkFrameMagic = 0x77660004;  // "wf", version 4

enum class LinkFrameType : uint16_t {
  kAnnounce = 1,
  kGrant = 2,
  kData = 3,
  kRoom = 4,
  kLeave = 5,
  kPlaced = 6,
  kGiveUp = 7
};

struct LinkFrame {
  uint32_t magic = kLinkFrameMagic;
  LinkFrameType type = LinkFrameType::kGrant;
  uint16_t ahead = 0;  // of kData: 1 if it was sent ahead of a grant, whole
  uint64_t group_id = 0;
  uint64_t sequence = 0;
  uint64_t tag = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  uint64_t message_bytes = 0;  // all of it
  uint64_t offset = 0;
  CallRecord record = {};  // of the message's operation
  uint64_t received = 0;   // how many bytes of the stream the one who says it has read
};

static_assert(sizeof(LinkFrame) == 96);

// What is said of a message.
inline LinkFrame FrameOf(LinkFrameType type, const Transfer& transfer) {
  return {.type = type,
          .group_id = transfer.stream.group_id,
          .sequence = transfer.stream.sequence,
          .tag = transfer.tag,
          .signature = transfer.signature,
          .message_bytes = transfer.bytes,
          .record = transfer.record};
}

// A part of a message, so that others get a turn in between.
constexpr size_t kPartBytesMax = 512 << 10;
// The same where a link has several connections: the less of a message is left, the fewer of them can take a part of it, and the slowest is
// waited for. See docs/perf/transport.md.
constexpr size_t kSharedPartBytesMax = 64 << 10;
// A message of so much goes ahead of a grant while there is room for it, which saves it a way there and back; larger ones never do.
constexpr size_t kAheadBytesMax = 64 << 10;

// It goes ahead, or is small at least: never in parts.
constexpr bool IsAhead(size_t bytes) {
  return bytes <= kAheadBytesMax;
}

// Of each link, at each end: what may have come ahead and not been taken, each message with its header.
constexpr size_t kRoomBytes = 512 << 10;

// Of each link, at most: the main one and those beside it.
constexpr int kLinkConnectionsMax = 16;
// What a link has granted, of messages that do not go ahead, before others than the main one are worth having.
constexpr uint64_t kSharedFromBytes = 1 << 20;

// Where streams break, a message of more than kAheadBytesMax is not copied when it is sent: its send ends when it has come. So that this is
// not waited for in vain, at most so much of it is copied after all, and its receiver says that the rest has come as soon as it has.
constexpr size_t kKeptOfMessage = 64 << 10;
// Of each link: copies of more than this are not made of such messages.
constexpr size_t kKeptBytes = 256 << 10;
// What may have come, of what its sender may have kept, without its being told.
constexpr size_t kUntoldBytes = kKeptBytes / 2;

// Of a part, how much its sender may keep.
constexpr size_t KeptOf(uint64_t message_bytes, uint64_t offset, size_t bytes) {
  const uint64_t end = offset + bytes;
  const uint64_t kept_from = message_bytes > kKeptOfMessage ? message_bytes - kKeptOfMessage : 0;
  return kept_from >= end ? 0
                          : static_cast<size_t>(end - (kept_from > offset ? kept_from : offset));
}

constexpr size_t RoomOf(size_t bytes) {
  return bytes + sizeof(LinkFrame);
}

}  // namespace weft
