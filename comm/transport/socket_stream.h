// A connected socket as a stream of bytes.
//
//   link.Attach(std::make_unique<SocketStream>(std::move(fd)));
//
// Thread-safety: as ByteStream. Owns the socket, which does not block.
#pragma once

#include <span>
#include <utility>

#include "base/fd.h"
#include "comm/transport/byte_stream.h"

namespace weft {

class SocketStream : public ByteStream {
 public:
  explicit SocketStream(UniqueFd fd) : fd_(std::move(fd)) {}

  IoResult Write(std::span<const iovec> pieces) override;
  IoResult Read(std::span<const iovec> pieces) override;

  // The other side's kernel has it.
  bool Flushed() const override;

 private:
  const UniqueFd fd_;
};

}  // namespace weft
