// The ends of many works, told to a thread of the program's (completion_queue.h).
//
//   weft::CompletionQueue queue = weft::CompletionQueue::Create();
//   queue.Add(group.Start().AllReduce(x, x, n, WEFT_SUM), 17);   // the Work may go: its completion comes
//   ...
//   weft_completion_t ended[64];
//   while (const std::size_t count = queue.Wait(ended, 64)) ...   // 0 after Wake()
//
// Include weft/weft.hpp. Thread rule: as the C functions.
#ifndef WEFT_COMPLETION_QUEUE_HPP_
#define WEFT_COMPLETION_QUEUE_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/owners.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// Destroying it waits for nobody: works go on, what they would have told is dropped, and Wait() throws BAD_STATE on threads
// that are inside.
class CompletionQueue : public Handle<weft_completion_queue_t, weft_completion_queue_destroy> {
 public:
  using Handle::Handle;

  static CompletionQueue Create(const weft_completion_queue_config_t* config = nullptr) {
    return CompletionQueue(
        internal::Returned<weft_completion_queue_t>(weft_completion_queue_create, config));
  }

  void Add(const Work& work, std::uint64_t token) const {
    Check(weft_completion_queue_add(get(), work.get(), token));
  }

  // How many completions were taken, at most `capacity`. 0: after Wake(), and when nothing has ended within `timeout`, or
  // without one within the queue's idle timeout. A failed operation does not throw: its completion says so.
  std::size_t Wait(weft_completion_t* completions, std::size_t capacity,
                   std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) const {
    std::size_t count = 0;
    const weft_result_t result =
        weft_completion_queue_wait(get(), timeout.count(), completions, capacity, &count);
    if (result != WEFT_IN_PROGRESS) Check(result);
    return count;
  }

  // The same, but never waits.
  std::size_t Poll(weft_completion_t* completions, std::size_t capacity) const {
    return internal::Returned<std::size_t>(weft_completion_queue_poll, get(), completions,
                                           capacity);
  }

  // One Wait() that has no completions to return returns 0.
  void Wake() const { Check(weft_completion_queue_wake(get())); }

  // Works that were added and whose completions have not been taken.
  std::size_t Pending() const {
    return internal::Returned<std::size_t>(weft_completion_queue_pending, get());
  }

  // Readable while there are completions to take; for poll, select and epoll.
  int Fd() const { return internal::Returned<int>(weft_completion_queue_fd, get()); }
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_COMPLETION_QUEUE_HPP_
