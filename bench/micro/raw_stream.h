// A plain program that reads a file block by block and writes each back: what the disk does for io_uring as it comes, past the page cache.
//
//   RawStream(fd, bytes, memory, {.block_bytes = 1 << 20, .buffers = 16}).Run();
//
// Each buffer reads a block, writes it, and goes on with the next one that nobody has. Memory and file are registered. Whatever fails ends
// the program.
#pragma once

#include <cstddef>
#include <span>

#include <liburing.h>

namespace weft {

struct RawShape {
  size_t block_bytes = 0;
  size_t buffers = 0;
};

class RawStream {
 public:
  // `fd` is open for both, with O_DIRECT. `memory` has all buffers.
  RawStream(int fd, size_t bytes, std::span<std::byte> memory, const RawShape& shape);
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;
  ~RawStream();

  // All of the file once.
  void Run();

 private:
  void Start(size_t buffer, size_t offset, bool writes);

  const int fd_;
  const size_t bytes_;
  std::byte* const memory_;
  const RawShape shape_;
  io_uring ring_ = {};
  bool registered_ = false;
};

}  // namespace weft
