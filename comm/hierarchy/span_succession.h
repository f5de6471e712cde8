// The group in which the ranks of one go on that was made anew.
//
//   succession.Set(next);
//   if (std::shared_ptr<SpanGroup> next = succession.Next()) ...     // this one is over
//
// Also where making it has ended with an error since: then the next attempt is that group's.
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace weft {

class SpanGroup;

class SpanSuccession {
 public:
  void Set(std::shared_ptr<SpanGroup> next) {
    MutexLock lock(mutex_);
    next_ = std::move(next);
  }

  std::shared_ptr<SpanGroup> Next() const {
    MutexLock lock(mutex_);
    return next_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<SpanGroup> next_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
