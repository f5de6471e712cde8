// What weft says aside from errors: warnings to stderr unless told otherwise (weft/log.h).
//
//   LogWarn("store: refused ", count, " connections that did not speak its protocol");
//
// The parts are joined as by StrCat, and only if the level is on. A message is one sentence
// without a newline. Log once, where the cause is known; never on the steady path.
// Thread-safety: any thread, but not from a log callback.
#pragma once

#include <string_view>

#include "weft/log.h"

#include "base/text.h"

namespace weft {

// True if messages of `level` are wanted.
bool LogEnabled(weft_log_level_t level);

// Hands one message to the callback or stderr. stderr gets it in one write, so lines of several
// ranks do not mix.
void LogMessage(weft_log_level_t level, std::string_view message);

// The two functions of weft/log.h, their arguments checked.
void SetLogCallback(weft_log_callback_t callback, void* user);
void SetLogLevel(weft_log_level_t level);

template <typename... Parts>
void LogAt(weft_log_level_t level, const Parts&... parts) {
  if (LogEnabled(level)) LogMessage(level, StrCat(parts...));
}

template <typename... Parts>
void LogError(const Parts&... parts) {
  LogAt(WEFT_LOG_ERROR, parts...);
}

template <typename... Parts>
void LogWarn(const Parts&... parts) {
  LogAt(WEFT_LOG_WARN, parts...);
}

template <typename... Parts>
void LogInfo(const Parts&... parts) {
  LogAt(WEFT_LOG_INFO, parts...);
}

template <typename... Parts>
void LogDebug(const Parts&... parts) {
  LogAt(WEFT_LOG_DEBUG, parts...);
}

}  // namespace weft
