// What follows a group that is made anew: whether it is over, and, while that is not done, how far it has come.
//
//   succession.Begin();                    // the others have agreed: this group is over
//   succession.Keep(core, group);          // what the next attempt, if this one ends with an error, is to begin with
//   succession.Forget();                   // the next group is somebody else's
//   succession.Drop();                     // there will be no attempt
//
// Thread-safety: any thread; Keep and Forget by one at a time.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/make_span.h"

namespace weft {

class SpanGroup;

class SpanSuccession {
 public:
  void Begin() {
    MutexLock lock(mutex_);
    begun_ = true;
  }

  bool begun() const {
    MutexLock lock(mutex_);
    return begun_;
  }

  // `group`: of `core`; nullptr: there is none.
  void Keep(const SpanCore& core, std::shared_ptr<SpanGroup> group) {
    MutexLock lock(mutex_);
    core_ = core;
    next_ = std::move(group);
  }

  bool has_core() const {
    MutexLock lock(mutex_);
    return core_.has_value();
  }

  std::optional<SpanCore> core() const {
    MutexLock lock(mutex_);
    return core_;
  }

  std::shared_ptr<SpanGroup> next() const {
    MutexLock lock(mutex_);
    return next_;
  }

  void Forget() {
    MutexLock lock(mutex_);
    core_.reset();
    next_.reset();
  }

  // Closes what there is.
  void Drop();

 private:
  mutable Mutex mutex_;
  bool begun_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<SpanCore> core_ WEFT_GUARDED_BY(mutex_);
  std::shared_ptr<SpanGroup> next_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
