// The headers on a link between two ranks: fixed in size, in the byte order of the machine, which both sides of a job share.
//
//   kAnnounce  a message waits for its grant: the receiver can see whether it is the one that it expects
//   kGrant     the receiver has room for all of a message: it may be sent
//   kData      a part of one, `bytes` from `offset` on, which follow
//   kRoom      `bytes` of what was sent ahead of a grant have been taken: so much more may be
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

constexpr uint32_t kLinkFrameMagic = 0x77660001;  // "wf", version 1

enum class LinkFrameType : uint16_t { kAnnounce = 1, kGrant = 2, kData = 3, kRoom = 4 };

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
};

static_assert(sizeof(LinkFrame) == 56);

// A part of a message, so that others get a turn in between.
constexpr size_t kPartBytesMax = 512 << 10;
// A message of so much goes ahead of a grant while there is room for it, which saves it a way there and back; larger ones never do.
constexpr size_t kAheadBytesMax = 8 << 10;
// Of each link, at each end: what may have come ahead and not been taken, each message with its header.
constexpr size_t kRoomBytes = 64 << 10;

constexpr size_t RoomOf(size_t bytes) {
  return bytes + sizeof(LinkFrame);
}

}  // namespace weft
