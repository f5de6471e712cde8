#include "comm/group/progress_signal.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/new_fd.h"
#include "base/status.h"

namespace weft {
namespace {

constexpr long kTickNs = 1'000'000;

absl::Status Watch(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return SystemError(errno, "making the progress descriptor: epoll_ctl");
}

// Both kinds of descriptors give 8 bytes, or EAGAIN when there is nothing.
void Empty(int fd) {
  uint64_t count = 0;
  if (fd >= 0) (void)!read(fd, &count, sizeof(count));
}

}  // namespace

absl::StatusOr<int> ProgressSignal::Fd() {
  if (epoll_.valid()) return epoll_.get();
  UniqueFd epoll = MakeEpoll();
  if (!epoll.valid()) return SystemError(errno, "making the progress descriptor: epoll_create1");
  UniqueFd event = MakeEvent(0);
  if (!event.valid()) return SystemError(errno, "making the progress descriptor: eventfd");
  UniqueFd timer = MakeMonotonicTimer();
  if (!timer.valid()) return SystemError(errno, "making the progress descriptor: timerfd_create");
  WEFT_RETURN_IF_ERROR(Watch(epoll.get(), event.get()));
  WEFT_RETURN_IF_ERROR(Watch(epoll.get(), timer.get()));
  if (included_ >= 0) WEFT_RETURN_IF_ERROR(Watch(epoll.get(), included_));
  epoll_ = std::move(epoll);
  timer_.store(timer.Release());
  if (ticking_) Arm();
  // WorkEnded() sets ended_ before it looks for the descriptor: one of the two tells.
  event_.store(event.Release(), std::memory_order_seq_cst);
  if (ended_.load(std::memory_order_seq_cst)) Tell();
  return epoll_.get();
}

void ProgressSignal::Tell() const {
  const int event = event_.load(std::memory_order_seq_cst);
  const uint64_t one = 1;
  if (event >= 0) (void)!write(event, &one, sizeof(one));
}

void ProgressSignal::WorkEnded() {
  if (!ended_.exchange(true, std::memory_order_seq_cst)) Tell();
}

void ProgressSignal::Include(int fd) {
  if (std::exchange(included_, fd) != fd && epoll_.valid()) (void)Watch(epoll_.get(), fd);
}

void ProgressSignal::Forget(int fd) {
  if (included_ != fd) return;
  included_ = -1;
  epoll_event unused = {};
  if (epoll_.valid()) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

void ProgressSignal::SetTicking(bool ticking) {
  if (ticking_ == ticking) return;
  ticking_ = ticking;
  Arm();
}

void ProgressSignal::Arm() const {
  const int timer = timer_.load();
  if (timer < 0) return;
  itimerspec times = {};
  if (ticking_) times.it_interval.tv_nsec = times.it_value.tv_nsec = kTickNs;
  (void)timerfd_settime(timer, 0, &times, nullptr);
}

// First the descriptors, then the flag: an end in between writes again or has been seen.
void ProgressSignal::Drain() {
  Empty(timer_.load());
  Empty(event_.load());
  ended_.exchange(false, std::memory_order_seq_cst);
}

}  // namespace weft
