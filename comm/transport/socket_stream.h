// A connected socket as a stream of bytes. A small message is one system call for each side: what is asked for in small pieces is read
// with what lies behind it, and what is written in small pieces goes as one.
//
//   link.Attach(std::make_unique<SocketStream>(std::move(fd)));
//
// Thread-safety: as ByteStream. Owns the socket, which does not block.
#pragma once

#include <array>
#include <cstddef>
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

  bool HasUnread() const override { return begin_ < end_; }

  // The other side's kernel has it.
  bool Flushed() const override;

  // What that has not got yet is not much more than is on its way at a time.
  bool HasRoom() override;

 private:
  // Larger ones are read and written where they lie.
  static constexpr size_t kSmallBytes = 1024;
  static constexpr size_t kAheadBytes = 16 << 10;

  // Between two looks at how much that is.
  static constexpr int kPartsPerLook = 16;

  ssize_t Receive(std::span<const iovec> pieces);

  const UniqueFd fd_;
  // The last read took all that there was: the next one need not ask.
  bool drained_ = false;
  int parts_until_look_ = 0;
  size_t on_its_way_ = 0;
  // What was read and not asked for yet.
  size_t begin_ = 0;
  size_t end_ = 0;
  std::array<std::byte, kAheadBytes> ahead_;
};

}  // namespace weft
