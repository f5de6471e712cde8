// Who reads an optimizer's state while steps go on, such as a checkpoint that is written in the background: the next update waits for
// them.
//
//   std::shared_ptr<const void> hold = holds.Take();     // what is kept does not change from here ...
//   hold.reset();                                        // ... to here, in any thread
//   WEFT_RETURN_IF_ERROR(holds.AwaitNone(timeout_ns));   // the update's
//
// Thread-safety: any thread. A hold may outlive this.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace weft {

class StateHolds {
 public:
  StateHolds();

  std::shared_ptr<const void> Take();
  // TIMEOUT if one is still there.
  absl::Status AwaitNone(int64_t timeout_ns);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
