// An asynchronous operation, shared by its caller and its group.
//
//   WEFT_ASSIGN_OR_RETURN(WorkRef work, group->Start(collective));
//   ...
//   WEFT_RETURN_IF_ERROR(work->Wait(0));
//
// Thread-safety: all members from any thread. A work keeps what it needs of its group alive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace weft {

class Work {
 public:
  virtual ~Work() = default;

  // True when the operation has ended, well or not. Never waits; may move the operation forward.
  virtual bool Test() = 0;

  // Waits until the operation has ended and returns its status. timeout_ns > 0: gives up after that
  // long with WEFT_IN_PROGRESS and leaves the operation alone; 0: its own deadline is the only one. INTERRUPTED leaves it alone,
  // too, and the interrupt to be taken (base/interrupt.h).
  virtual absl::Status Wait(int64_t timeout_ns) = 0;

  // True when the operation has ended. Never waits and never moves anything.
  virtual bool ended() const = 0;

  // Its number in its group, from 1; 0 while it has none, or if the group has no numbers.
  virtual uint64_t sequence() const { return 0; }

  // The status after Test() said true; Ok before.
  virtual absl::Status status() = 0;

  // Works that Test() and Wait() of one of them move together have the same.
  virtual const void* moved_with() const { return this; }

  // Nobody waits for it from now on: the progress thread, if there is one, takes it up at once. Never waits.
  virtual void LeaveToProgress() {}

  // Called once when the operation has ended, on the completing thread with no lock of weft held; at
  // once on this thread if it has ended. At most one; false if there is one already.
  virtual bool OnComplete(std::function<void(const absl::Status&)> callback) = 0;
};

using WorkRef = std::shared_ptr<Work>;

}  // namespace weft
