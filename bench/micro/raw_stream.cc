#include "bench/micro/raw_stream.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/uio.h>

namespace weft {
namespace {

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "raw_stream: %s\n", what);
  std::exit(1);
}

}  // namespace

RawStream::RawStream(int fd, size_t bytes, std::span<std::byte> memory, const RawShape& shape)
    : fd_(fd), bytes_(bytes), memory_(memory.data()), shape_(shape) {
  if (memory.size() < shape.block_bytes * shape.buffers) Die("there is no memory for the buffers");
  if (io_uring_queue_init(static_cast<unsigned>(shape.buffers), &ring_, 0) != 0)
    Die("there is no io_uring to compare with");
  if (io_uring_register_files(&ring_, &fd_, 1) != 0) Die("the file was not registered");
  const iovec all = {memory_, memory.size()};
  registered_ = io_uring_register_buffers(&ring_, &all, 1) == 0;
}

RawStream::~RawStream() {
  io_uring_queue_exit(&ring_);
}

void RawStream::Run() {
  std::vector<size_t> offsets(shape_.buffers);
  std::vector<bool> writes(shape_.buffers);
  size_t next = 0;
  size_t under_way = 0;
  for (size_t buffer = 0; buffer < shape_.buffers && next < bytes_; ++buffer, ++under_way) {
    offsets[buffer] = next;
    next += shape_.block_bytes;
    Start(buffer, offsets[buffer], false);
  }
  while (under_way > 0) {
    if (io_uring_submit_and_wait(&ring_, 1) < 0) Die("io_uring_submit_and_wait failed");
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const size_t buffer = io_uring_cqe_get_data64(entry);
      if (entry->res != static_cast<int>(shape_.block_bytes)) Die("a plain transfer failed");
      io_uring_cqe_seen(&ring_, entry);
      writes[buffer] = !writes[buffer];
      if (!writes[buffer]) {
        offsets[buffer] = next;
        next += shape_.block_bytes;
      }
      if (offsets[buffer] < bytes_) {
        Start(buffer, offsets[buffer], writes[buffer]);
      } else {
        --under_way;
      }
    }
  }
}

void RawStream::Start(size_t buffer, size_t offset, bool writes) {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  std::byte* const at = memory_ + buffer * shape_.block_bytes;
  const auto bytes = static_cast<unsigned>(shape_.block_bytes);
  if (registered_ && writes) {
    io_uring_prep_write_fixed(entry, 0, at, bytes, offset, 0);
  } else if (registered_) {
    io_uring_prep_read_fixed(entry, 0, at, bytes, offset, 0);
  } else if (writes) {
    io_uring_prep_write(entry, 0, at, bytes, offset);
  } else {
    io_uring_prep_read(entry, 0, at, bytes, offset);
  }
  entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(entry, buffer);
}

}  // namespace weft
