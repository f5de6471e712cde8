// What a thread sleeps on when descriptors as well as other threads may end its sleep: an epoll set with a bell.
//
//   PollSet set;
//   WEFT_RETURN_IF_ERROR(set.Open());
//   set.Add(pidfd);                                   // says once that it has become readable
//   set.Add({.handle = socket, .want_write = true});  // or writable
//   const uint32_t heard = set.rings();               // then look whether there is anything to do; then
//   if (set.Sleep(heard, until_ns)) ...               // some descriptor is ready
//   set.Ring();                                       // from another thread: no sleep goes on that began before it
//
// No ring is lost: the sleeper says that it sleeps before it compares the count of rings a last time, who rings counts before it
// looks whether anybody sleeps (seq_cst). One of the two sees the other. A ring while nobody sleeps is two instructions and no
// system call.
//
// A descriptor that has said so is silent until it is added again: one that stays readable, as that of an ended process does,
// would keep the thread awake for good.
//
// Thread-safety: Sleep and Take from one thread at a time, all else from any thread. Descriptors are borrowed. One that is closed
// while it is in the set leaves it, but for copies in forked children: then it may be heard once more.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/net.h"

namespace weft {

class PollSet {
 public:
  // SYSTEM_ERROR if no descriptors can be had; a later call tries again. Nothing if it is open.
  absl::Status Open();

  bool open() const { return epoll_.valid(); }

  // Readable when a descriptor of the set is, and while a ring has not been heard.
  int fd() const { return epoll_.get(); }

  // False if the system refuses; a set that is not open has no descriptors. What was wanted of it before counts no more.
  bool Add(const PollItem& item) const;

  bool Add(int fd) const { return Add({.handle = fd, .want_read = true}); }

  void Remove(int fd) const;

  uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }

  void Ring();

  // Sleeps until a descriptor is ready, somebody rings (at once if rings() is not `heard`) or the time comes, on
  // MonotonicNs's clock. May return early. True if Take() was.
  bool Sleep(uint32_t heard, int64_t until_ns);

  // Does not wait. True if a descriptor has become ready since the last call.
  bool Take() const;

 private:
  UniqueFd epoll_;
  UniqueFd bell_;  // an eventfd
  std::atomic<uint32_t> rings_{0};
  std::atomic<bool> sleeps_{false};
};

}  // namespace weft
