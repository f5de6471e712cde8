// The descriptor of weft_progress_fd: readable when weft_progress() is worth calling.
//
//   WEFT_ASSIGN_OR_RETURN(const int fd, signal.Fd());   // made when first asked for, kept for good
//   signal.WorkEnded();                                 // readable
//   signal.SetTicking(true);                            // readable every millisecond
//   signal.Drain();                                     // not readable until the next of these
//
// An epoll descriptor over an eventfd and a timerfd; nothing is written to them, and no timer runs,
// while nobody has asked for it.
// Thread-safety: WorkEnded and Drain from any thread; Fd, SetTicking, Include and Forget one at a time. The descriptors
// are never closed: the program has been given one.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

class ProgressSignal {
 public:
  // SYSTEM_ERROR when no descriptors can be had; a later call tries again.
  absl::StatusOr<int> Fd();

  // An operation has ended. Whoever sees Drain() return knows of all ends before it.
  void WorkEnded();

  // What makes `fd` readable is a reason to call weft_progress() too, until Forget(fd).
  void Include(int fd);
  void Forget(int fd);

  // Somebody must call weft_progress() now and then, or need not any more.
  void SetTicking(bool ticking);

  void Drain();

 private:
  void Tell() const;
  void Arm() const;

  std::atomic<bool> ended_{false};  // since the last Drain()
  std::atomic<int> event_{-1};      // eventfd, -1 until it is wanted
  std::atomic<int> timer_{-1};
  bool ticking_ = false;
  int included_ = -1;
  UniqueFd epoll_;
};

}  // namespace weft
