// Who reads an optimizer's state while steps go on, such as a checkpoint that is written in the background: whoever would change it
// waits for them.
//
//   std::shared_ptr<const void> hold = holds.Take(until_ns);        // what is kept does not change from here ...
//   hold.reset();                                                   // ... to here, in any thread
//   WEFT_RETURN_IF_ERROR(holds.AwaitNone([&] { return group.error(); }));      // an update's
//
// Thread-safety: any thread. A hold may outlive this.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace weft {

class StateHolds {
 public:
  StateHolds();

  // `until_ns`, of MonotonicNs's clock: when whoever has it must have let it go.
  std::shared_ptr<const void> Take(int64_t until_ns);
  // TIMEOUT if one is still there when it must not be any more. `look` is called now and then; what it returns, if not Ok, ends the wait.
  // INTERRUPTED as this thread's check says.
  absl::Status AwaitNone(absl::FunctionRef<absl::Status()> look);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
