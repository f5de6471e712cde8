// The sleep itself is ppoll on the epoll descriptor: epoll_wait counts milliseconds, and a thread that helps operations on naps
// for less. epoll_pwait2 would do, but it is younger than the kernels that weft runs on.
#include "base/poll_set.h"

#include <cerrno>
#include <ctime>

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/new_fd.h"
#include "base/status.h"
#include "base/wait.h"

namespace weft {
namespace {

// Of the bell, which is level-triggered; the descriptors of others carry their number.
constexpr uint64_t kBell = UINT64_MAX;

}  // namespace

absl::Status PollSet::Open() {
  if (open()) return absl::OkStatus();
  UniqueFd bell = MakeEvent(0);
  if (!bell.valid()) return SystemError(errno, "making a set of descriptors: eventfd");
  UniqueFd epoll = MakeEpoll();
  if (!epoll.valid()) return SystemError(errno, "making a set of descriptors: epoll_create1");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.get(), &event) != 0) {
    return SystemError(errno, "making a set of descriptors: epoll_ctl");
  }
  bell_ = std::move(bell);
  epoll_ = std::move(epoll);
  return absl::OkStatus();
}

bool PollSet::Add(const PollItem& item) const {
  epoll_event event = {};
  event.events = EPOLLONESHOT;
  if (item.want_read) event.events |= EPOLLIN;
  if (item.want_write) event.events |= EPOLLOUT;
  event.data.u64 = static_cast<uint64_t>(item.handle);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, item.handle, &event) == 0) return true;
  return errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, item.handle, &event) == 0;
}

void PollSet::Remove(int fd) const {
  epoll_event unused = {};
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

void PollSet::Ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t one = 1;
  if (sleeps_.load(std::memory_order_seq_cst)) (void)!write(bell_.get(), &one, sizeof(one));
}

bool PollSet::Sleep(uint32_t heard, int64_t until_ns) {
  sleeps_.store(true, std::memory_order_seq_cst);
  if (rings() == heard) {
    const int64_t now_ns = MonotonicNs();
    if (until_ns > now_ns) {
      const int64_t left_ns = until_ns - now_ns;
      pollfd item = {epoll_.get(), POLLIN, 0};
      const timespec timeout = {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
      (void)ppoll(&item, 1, &timeout, nullptr);
    }
  }
  sleeps_.store(false, std::memory_order_seq_cst);
  return Take();
}

bool PollSet::Take() const {
  constexpr int kEvents = 16;
  epoll_event events[kEvents];
  bool any = false;
  for (int count = kEvents; count == kEvents;) {
    count = epoll_wait(epoll_.get(), events, kEvents, 0);
    for (int i = 0; i < count; ++i) {
      uint64_t rings = 0;
      if (events[i].data.u64 == kBell) {
        (void)!read(bell_.get(), &rings, sizeof(rings));
      } else {
        any = true;
      }
    }
  }
  return any;
}

}  // namespace weft
