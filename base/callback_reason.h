// Why a function of the program's own has failed, in its own words: a result code is all that it can return, so the sentence waits for weft
// on the thread that both are on.
//
//   const CallbackAnswer answer = AskCallback([&] { return callbacks.set(callbacks.user, key, value, size); });
//   if (answer.result != WEFT_SUCCESS) return MakeError(answer.result, StrCat("the store could not set ", key, BehindColon(answer)));
//
// Thread-safety: any thread; each has its own.
#pragma once

#include <string>

#include "weft/types.h"

namespace weft {

struct CallbackAnswer {
  weft_result_t result = WEFT_SUCCESS;
  std::string reason = {};  // "": it has given none
};

// ": " and the reason, or "".
inline std::string BehindColon(const CallbackAnswer& answer) {
  return answer.reason.empty() ? "" : ": " + answer.reason;
}

// Of a function that is about to return a failure, on its thread. NULL: none. Longer ones are cut.
void KeepCallbackReason(const char* reason);
// What was kept on this thread since it was last taken.
std::string TakeCallbackReason();

// Calls `call`, which returns what a function of the program's has returned.
template <typename Call>
CallbackAnswer AskCallback(const Call& call) {
  TakeCallbackReason();  // of a function that nobody has asked
  CallbackAnswer answer{.result = call()};
  if (answer.result != WEFT_SUCCESS) answer.reason = TakeCallbackReason();
  return answer;
}

}  // namespace weft
