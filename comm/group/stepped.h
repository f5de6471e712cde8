// What the progress thread, or weft_progress(), moves: a group with operations that nobody may be waiting for.
//
//   switch (group->Look()) ...              // does it need help?
//   WaitTarget target;
//   if (group->Help(&target)) ...           // not through yet: `target` says what it waits for
//
// Groups implement it; progress.h is all that calls it, and knows no more of them.
// Thread-safety: all members, any thread. After the group has been closed they do nothing.
#pragma once

#include <cstdint>

#include "base/wait.h"
#include "comm/group/wait_target.h"

namespace weft {

class Stepped {
 public:
  virtual ~Stepped() = default;

  // kNeeded: somebody should step, because nothing has ended since the last look and nobody waits.
  // kIdle: nothing has been queued since then.
  enum class Attendance : uint8_t { kNeeded, kNotNeeded, kIdle };
  virtual Attendance Look() = 0;

  // Steps what is queued unless somebody else does. True if some of it is still queued; then *target is what the
  // oldest operation waits for, or empty if another thread steps.
  virtual bool TryStep(WaitTarget* target) = 0;

  // As TryStep, but the next Look() does not count it as others being at work.
  virtual bool Help(WaitTarget* target) = 0;

  // Waits until it makes sense to step again; false at the deadline.
  virtual bool WaitFor(const WaitTarget& target, Deadline& deadline) = 0;

  // The highest priority among the queued operations; INT32_MIN if there are none, or somebody steps them.
  virtual int32_t QueuedPriority() = 0;

  // Operations that have not ended, those left to be issued included, and asynchronous messages.
  virtual uint32_t queued() const = 0;

  // True while Progress has the group; set under its mutex, before it looks at queued() a last time.
  virtual void SetAskedForProgress(bool asked) = 0;
};

}  // namespace weft
