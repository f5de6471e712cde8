// Two-way bytes between two ranks, in order, as a link needs them: what carries them is the implementation's.
//
//   iovec pieces[] = {{header, sizeof(header)}, {data, bytes}};
//   const IoResult written = stream->Write(pieces);
//   if (written.state == IoState::kDone) ... written.bytes of the pieces are on their way
//
// Nothing waits but the two that take memory back. Write and Read move as much as they can in one go, at least one byte if they say kDone;
// pieces are not empty.
//
// A stream may carry large parts of messages beside its bytes, straight from memory into memory. Each is told of in the bytes, and both
// ends ask for it by its place among those of its direction:
//
//   if (bytes >= stream->placed().bytes_min) ... result = stream->SendPart(memory, bytes)        // again and again while kWouldBlock
//
// Thread-safety: none; the transport's lock. Memory of pieces is touched during the call only, that of a part until the call that says how it
// has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "base/net.h"

namespace weft {

// Which parts go beside the bytes.
struct PlacedParts {
  size_t bytes_min = SIZE_MAX;  // none
  size_t bytes_max = 0;         // of one
};

class ByteStream {
 public:
  // No memory of a part is touched any more.
  virtual ~ByteStream() = default;

  // kClosed: the other side reads no more.
  virtual IoResult Write(std::span<const iovec> pieces) = 0;

  // kClosed: all that the other side has written was read, and it writes no more.
  virtual IoResult Read(std::span<const iovec> pieces) = 0;

  // A read would give something that no descriptor tells of any more.
  virtual bool HasUnread() const { return false; }

  // What was written has left this process's hands: ending the stream takes nothing back.
  virtual bool Flushed() const = 0;

  // Of several that share something large: this one has not got so much to do yet that another one should take the next part.
  virtual bool HasRoom() { return true; }

  // What was written goes without another call: who has no more to do here need not come back.
  virtual bool Sent() const { return true; }

  virtual PlacedParts placed() const { return {}; }

  // One part, whole: kDone when it has left. Once this has said kWouldBlock it is under way, and the call is repeated as it was; the next part
  // comes after it.
  virtual IoResult SendPart(const std::byte* /*memory*/, size_t /*bytes*/) { return {}; }

  // The same for one that comes; without memory it is thrown away.
  virtual IoResult ReceivePart(std::byte* /*memory*/, size_t /*bytes*/) { return {}; }

  // The memory of the part under way is wanted back, within a second: kDone: the part has ended as it would have; kFailed: the stream had to be
  // broken for it; kWouldBlock, of a receive: it had not begun, and is to be asked for again.
  virtual IoResult TakeBackSend() { return {}; }

  virtual IoResult TakeBackReceive() { return {}; }
};

}  // namespace weft
