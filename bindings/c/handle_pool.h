// Memory of handles that outlives them, so that a call with one that was destroyed is refused and reads nothing that
// was freed.
//
//   weft_group* const handle = HandlePool<weft_group>::Get().Make();     // live, and otherwise as by default
//   HandlePool<weft_group>::Get().Retire(handle);                        // its contents go; it stays a dead weft_group
//
// Memory that was retired is taken again, oldest first, when kQuarantine others were retired after it: until then no other
// object has the address that a stale handle names.
//
// A Handle is dead by default, and SetLive(bool) says whether it is live.
//
// Thread-safety: any thread. Retiring a handle that another thread uses is the caller's mistake, as before.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <new>

#include "base/mutex.h"

namespace weft {

template <typename Handle>
class HandlePool {
 public:
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  static HandlePool& Get() {
    static auto* const pool =
        new HandlePool;  // never destroyed: programs end with handles that live
    return *pool;
  }

  Handle* Make() WEFT_EXCLUDES(mutex_) {
    Handle* const handle = TakeMemory();
    handle->SetLive(true);
    return handle;
  }

  void Retire(Handle* handle) WEFT_EXCLUDES(mutex_) {
    handle->SetLive(false);
    std::destroy_at(handle);
    new (handle) Handle;
    const MutexLock lock(mutex_);
    try {
      retired_.push_back(handle);
    } catch (const std::bad_alloc&) {  // it is not taken again
    }
  }

 private:
  // Some megabytes at most, and more handles than a program destroys between two mistakes.
  static constexpr size_t kQuarantine = size_t{1} << 14;

  HandlePool() = default;

  Handle* TakeMemory() WEFT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (retired_.size() <= kQuarantine) return &all_.emplace_back();
    Handle* const oldest = retired_.front();
    retired_.pop_front();
    return oldest;
  }

  Mutex mutex_;
  std::deque<Handle> all_ WEFT_GUARDED_BY(mutex_);  // whose elements never move
  std::deque<Handle*> retired_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
