/* The settings that weft reads from the environment (WEFT_*), as one table. `weftctl options`
 * prints it.
 *
 * Each is read once, when first needed. A WEFT_* variable that is not in the table is warned about
 * with the nearest name that is.
 */
#ifndef WEFT_OPTIONS_H_
#define WEFT_OPTIONS_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* One setting. Strings are static. */
typedef struct weft_option_info {
  size_t struct_size;        /* set by the caller: sizeof(weft_option_info_t) */
  const char* environment;   /* "WEFT_TIMEOUT_S" */
  const char* type;          /* "integer", "bytes", "seconds", "boolean", "choice", "text" */
  const char* default_value; /* as text */
  const char* meaning;       /* a sentence */
} weft_option_info_t;

/* How many settings there are. Any thread. */
WEFT_EXPORT size_t weft_option_count(void);
/* The setting at `index` < weft_option_count(). INVALID_ARGUMENT otherwise. Any thread. */
WEFT_EXPORT weft_result_t weft_option_at(size_t index, weft_option_info_t* info);

WEFT_END_DECLS

#endif /* WEFT_OPTIONS_H_ */
