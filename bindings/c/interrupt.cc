#include "weft/interrupt.h"

#include "base/interrupt.h"
#include "bindings/c/guard.h"

using weft::Guarded;

weft_result_t weft_set_interrupt(weft_interrupt_check_t check, void* user, int64_t every_ns) {
  return Guarded([&]() -> absl::Status {
    if (every_ns < 0) {
      return weft::InvalidArgument("weft_set_interrupt", "every_ns is negative");
    }
    weft::SetInterrupt({.check = check, .user = user, .every_ns = every_ns});
    return absl::OkStatus();
  });
}
