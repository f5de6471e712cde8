// Two-way bytes between two ranks, in order, as a link needs them: what carries them is the implementation's.
//
//   iovec pieces[] = {{header, sizeof(header)}, {data, bytes}};
//   const IoResult written = stream->Write(pieces);
//   if (written.state == IoState::kDone) ... written.bytes of the pieces are on their way
//
// Nothing waits. Write and Read move as much as they can in one go, at least one byte if they say kDone; pieces are not empty.
//
// Thread-safety: none; the transport's lock. Memory of the pieces is touched during the call only.
#pragma once

#include <span>

#include <sys/uio.h>

#include "base/net.h"

namespace weft {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // kClosed: the other side reads no more.
  virtual IoResult Write(std::span<const iovec> pieces) = 0;

  // kClosed: all that the other side has written was read, and it writes no more.
  virtual IoResult Read(std::span<const iovec> pieces) = 0;

  // A read would give something that no descriptor tells of any more.
  virtual bool HasUnread() const { return false; }

  // What was written has left this process's hands: ending the stream takes nothing back.
  virtual bool Flushed() const = 0;
};

}  // namespace weft
