/* What weft says aside from errors. Quiet by default: warnings only, to stderr, never to stdout.
 *
 * WEFT_LOG=error|warn|info|debug sets the level at start.
 */
#ifndef WEFT_LOG_H_
#define WEFT_LOG_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How grave a message is. */
typedef enum weft_log_level {
  WEFT_LOG_ERROR = 0,
  WEFT_LOG_WARN = 1,
  WEFT_LOG_INFO = 2,
  WEFT_LOG_DEBUG = 3
} weft_log_level_t;

/* Receives one message, without a trailing newline. Called on the thread that logs, possibly
 * several at once, with no weft lock held; must not call weft and should return soon. */
typedef void (*weft_log_callback_t)(weft_log_level_t level, const char* message, void* user);

/* Sends messages to `callback` instead of stderr; NULL: back to stderr. When it returns, the former
 * callback is no longer running on any thread. Never fails. Any thread, but not from a log
 * callback. */
WEFT_EXPORT weft_result_t weft_log_set_callback(weft_log_callback_t callback, void* user);

/* Messages above `level` are dropped. INVALID_ARGUMENT for an unknown level. Any thread. */
WEFT_EXPORT weft_result_t weft_log_set_level(weft_log_level_t level);

WEFT_END_DECLS

#endif /* WEFT_LOG_H_ */
