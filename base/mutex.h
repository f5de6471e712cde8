// std::mutex with the annotations that clang's thread-safety analysis reads.
//
//   Mutex mutex_;
//   int count_ WEFT_GUARDED_BY(mutex_);
//   ...
//   MutexLock lock(mutex_);
//
// For rare, slow paths only: no collective takes one in its steady state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#if defined(__clang__)
#define WEFT_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define WEFT_THREAD_ANNOTATION(x)
#endif

#define WEFT_CAPABILITY(x) WEFT_THREAD_ANNOTATION(capability(x))
#define WEFT_SCOPED_CAPABILITY WEFT_THREAD_ANNOTATION(scoped_lockable)
#define WEFT_GUARDED_BY(x) WEFT_THREAD_ANNOTATION(guarded_by(x))
#define WEFT_REQUIRES(...) WEFT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define WEFT_EXCLUDES(...) WEFT_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define WEFT_ACQUIRE(...) WEFT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define WEFT_TRY_ACQUIRE(...) WEFT_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define WEFT_RELEASE(...) WEFT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define WEFT_RETURN_CAPABILITY(x) WEFT_THREAD_ANNOTATION(lock_returned(x))
#define WEFT_NO_THREAD_SAFETY_ANALYSIS WEFT_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace weft {

class WEFT_CAPABILITY("mutex") Mutex {
 public:
  void Lock() WEFT_ACQUIRE() { mutex_.lock(); }

  // False if somebody holds it; not to be called by the thread that does.
  bool TryLock() WEFT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  void Unlock() WEFT_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex for a scope; Wait() and WaitUntil() let go of it while a condition variable sleeps.
class WEFT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WEFT_ACQUIRE(mutex) : lock_(mutex.mutex_) {}

  ~MutexLock() WEFT_RELEASE() = default;

  void Wait(std::condition_variable& condition) { condition.wait(lock_); }

  // False if the time has come, on MonotonicNs's clock.
  bool WaitUntil(std::condition_variable& condition, int64_t time_ns) {
    const std::chrono::steady_clock::time_point time{std::chrono::nanoseconds(time_ns)};
    return condition.wait_until(lock_, time) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace weft
