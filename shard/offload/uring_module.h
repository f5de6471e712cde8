// What libweft has of io_uring: a table of functions in a library of its own, libweft_uring.so, which is opened when it is wanted. So libweft
// needs no liburing, neither where it is compiled nor where it runs.
//
//   UringRing* ring = uring.open(&opening, &why);
//   uring.start(ring, &request);                   // until it is false
//   uring.submit(ring);
//   uring.wait(ring, 1'000'000);
//   count = uring.take(ring, ends, 16);
//
// The table is all that both sides must agree on: plain types, and a number that is raised with every change of it.
//
// Thread-safety: of a ring, one thread at a time. Rings know nothing of each other. No threads but the kernel's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

#include "base/module_table.h"

namespace weft {

inline constexpr uint32_t kUringModuleVersion = 1;

struct UringRing;

// What went wrong, for people, with its errno.
struct UringReason {
  int32_t error_number;
  char text[128];
};

struct UringOpening {
  int32_t file;    // borrowed for the ring's life
  uint32_t depth;  // requests that are under way at most
  const iovec* buffers;
  uint32_t buffer_count;  // to be registered; 0: none
};

struct UringRequest {
  bool writes;
  uint32_t bytes;
  uint64_t offset;
  void* memory;
  int32_t buffer;  // in which of the opening's buffers all of it lies; -1: in none
  uint64_t tag;
};

struct UringEnd {
  uint64_t tag;
  int64_t moved;  // or -errno
};

struct UringModule {
  ModuleTable table;

  // nullptr: it failed.
  UringRing* (*open)(const UringOpening* opening, UringReason* why);
  // Nothing is under way any more.
  void (*close)(UringRing* ring);
  // False: the kernel has not taken the buffers, and requests must not name any.
  bool (*has_buffers)(const UringRing* ring);
  // False: there is no room before the next submit().
  bool (*start)(UringRing* ring, const UringRequest* request);
  // Hands on what was started, in order. How many the kernel has taken, or -errno: none.
  int32_t (*submit)(UringRing* ring);
  // What has ended, at most `room`; does not wait.
  uint32_t (*take)(UringRing* ring, UringEnd* ends, uint32_t room);
  // Until something has ended, a signal came or that time has passed. 0 or -errno.
  int32_t (*wait)(UringRing* ring, int64_t timeout_ns);
};

}  // namespace weft
