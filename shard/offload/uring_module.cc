// The module: what of io_uring the table names, and nothing of weft. Compiled into libweft_uring.so alone.
#include "shard/offload/uring_module.h"

#include <cerrno>
#include <cstdio>

#include <liburing.h>

#include "base/standard_fds.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif
#endif

namespace weft {

struct UringRing {
  io_uring ring = {};
  int file = -1;  // its number among registered files, or the descriptor
  bool file_is_registered = false;
  bool has_buffers = false;
};

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// ThreadSanitizer does not see that rings are mapped and unmapped: liburing has system calls of its own. A ring may have the address of
// one that another thread used and closed, and that thread's accesses are no race: whoever opens a ring comes after all who closed one.
#if defined(WEFT_THREAD_SANITIZER)
char closed_rings;

void BeforeUnmapping() {
  __tsan_release(&closed_rings);
}

void AfterMapping() {
  __tsan_acquire(&closed_rings);
}
#else
void BeforeUnmapping() {}

void AfterMapping() {}
#endif

UringRing* Refuse(UringReason* why, const char* call, int error_number) {
  why->error_number = error_number;
  std::snprintf(why->text, sizeof(why->text), "%s", call);
  return nullptr;
}

// 0 or -errno. Cooperative: what has ended is told when the program next enters the kernel, which interrupts nobody who computes; kernels
// before 5.19 do not know this.
int Init(uint32_t depth, io_uring* ring) {
  HoldStandardFds();
  io_uring_params parameters = {};
  parameters.flags = IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  int result = io_uring_queue_init_params(depth, ring, &parameters);
  if (result == -EINVAL) {
    parameters = {};
    parameters.flags = IORING_SETUP_CLAMP;
    result = io_uring_queue_init_params(depth, ring, &parameters);
  }
  if (result != 0) return result;
  // Without it a wait with a deadline is a request of its own.
  if ((parameters.features & IORING_FEAT_EXT_ARG) != 0) return 0;
  io_uring_queue_exit(ring);
  return -ENOSYS;
}

UringRing* Open(const UringOpening* opening, UringReason* why) {
  auto* const ring = new UringRing();
  const int result = Init(opening->depth, &ring->ring);
  if (result != 0) {
    delete ring;
    return Refuse(why, "io_uring_setup", -result);
  }
  AfterMapping();
  const int file = opening->file;
  ring->file_is_registered = io_uring_register_files(&ring->ring, &file, 1) == 0;
  ring->file = ring->file_is_registered ? 0 : file;
  ring->has_buffers =
      opening->buffer_count > 0 &&
      io_uring_register_buffers(&ring->ring, opening->buffers, opening->buffer_count) == 0;
  return ring;
}

void Close(UringRing* ring) {
  BeforeUnmapping();
  io_uring_queue_exit(&ring->ring);
  delete ring;
}

bool HasBuffers(const UringRing* ring) {
  return ring->has_buffers;
}

bool Start(UringRing* ring, const UringRequest* request) {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring->ring);
  if (entry == nullptr) return false;
  if (request->buffer >= 0 && request->writes) {
    io_uring_prep_write_fixed(entry, ring->file, request->memory, request->bytes, request->offset,
                              request->buffer);
  } else if (request->buffer >= 0) {
    io_uring_prep_read_fixed(entry, ring->file, request->memory, request->bytes, request->offset,
                             request->buffer);
  } else if (request->writes) {
    io_uring_prep_write(entry, ring->file, request->memory, request->bytes, request->offset);
  } else {
    io_uring_prep_read(entry, ring->file, request->memory, request->bytes, request->offset);
  }
  if (ring->file_is_registered) entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(entry, request->tag);
  return true;
}

int32_t Submit(UringRing* ring) {
  return io_uring_submit(&ring->ring);
}

uint32_t Take(UringRing* ring, UringEnd* ends, uint32_t room) {
  uint32_t count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < room && io_uring_peek_cqe(&ring->ring, &entry) == 0 && entry != nullptr) {
    ends[count++] = {.tag = io_uring_cqe_get_data64(entry), .moved = entry->res};
    io_uring_cqe_seen(&ring->ring, entry);
  }
  return count;
}

int32_t Wait(UringRing* ring, int64_t timeout_ns) {
  __kernel_timespec timeout = {.tv_sec = timeout_ns / kNsPerSecond,
                               .tv_nsec = timeout_ns % kNsPerSecond};
  io_uring_cqe* entry = nullptr;
  return io_uring_wait_cqes(&ring->ring, &entry, 1, &timeout, nullptr);
}

}  // namespace
}  // namespace weft

extern "C" __attribute__((visibility("default"))) const weft::UringModule* weft_uring_module() {
  static const weft::UringModule module = {
      .table = {weft::kUringModuleVersion, sizeof(weft::UringModule)},
      .open = weft::Open,
      .close = weft::Close,
      .has_buffers = weft::HasBuffers,
      .start = weft::Start,
      .submit = weft::Submit,
      .take = weft::Take,
      .wait = weft::Wait,
  };
  return &module;
}
