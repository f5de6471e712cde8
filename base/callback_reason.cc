#include "base/callback_reason.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/per_thread.h"

namespace weft {
namespace {

constexpr size_t kReasonBytesMax = 4095;

struct Reason {
  std::string text;
};

}  // namespace

void KeepCallbackReason(const char* reason) {
  try {
    PerThread<Reason>::Get().text.assign(reason == nullptr ? "" : reason,
                                         reason == nullptr ? 0 : strnlen(reason, kReasonBytesMax));
  } catch (const std::bad_alloc&) {
    // The code must do.
  }
}

std::string TakeCallbackReason() {
  Reason* const reason = PerThread<Reason>::Find();
  return reason == nullptr ? "" : std::exchange(reason->text, {});
}

}  // namespace weft
