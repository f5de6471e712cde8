/* Why the last call of this thread failed, as a sentence and as fields.
 *
 *   if (weft_all_reduce(...) != WEFT_SUCCESS) fprintf(stderr, "%s\n", weft_last_error());
 *
 * Thread rule: both describe the calling thread's last failed weft call; a call that succeeds
 * leaves them alone. What a work has failed with is asked of the work (weft_work_error_info).
 */
#ifndef WEFT_ERROR_H_
#define WEFT_ERROR_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Everything known about a failure besides its sentence. Unknown numbers are -1, unknown text is
 * empty; text that is longer than its field is cut. */
typedef struct weft_error_info {
  size_t struct_size;   /* set by the caller: sizeof(weft_error_info_t) */
  weft_result_t result; /* what the failed call returned */
  int32_t rank;         /* group rank of the culprit */
  int32_t pid;          /* its process */
  int32_t signal;       /* the signal that ended it; 0: it exited by itself */
  int32_t exit_code;    /* its exit code when it exited by itself */
  int64_t sequence;     /* number of the operation within the group, from 1 */
  char host[64];        /* its machine */
  char group[64];       /* the group's name */
  char operation[32];   /* "all_reduce"... */
  int32_t world_rank; /* rank of the culprit in the group that `group` was split from, first of all;
                           the same as rank if it was not split */
  char
      unit[64]; /* the shard unit that the failed call was made for, or that the failure is about */
  char param[64];      /* its param, likewise */
  int32_t device;      /* the accelerator that failed; -1 where there is none, as in host memory */
  int32_t device_code; /* what its driver returned (CUresult); -1 where there is none */
} weft_error_info_t;

/* The short name of a result code, "peer_lost"; "unknown" for an unknown one. Static storage. Any
 * thread. */
WEFT_EXPORT const char* weft_result_name(weft_result_t result);

/* The sentence of this thread's last failed weft call, "" if there was none. It says what was
 * attempted, what was found and what to do. Valid until the thread's next failed weft call. */
WEFT_EXPORT const char* weft_last_error(void);

/* The fields of this thread's last failed weft call. INVALID_ARGUMENT for NULL or a struct_size of
 * 0. */
WEFT_EXPORT weft_result_t weft_last_error_info(weft_error_info_t* info);

/* For a function of your own that weft calls and that returns a result, as those of a store and of a checkpoint's value do: keeps the
 * sentence that says why it fails, and returns `result` for it to return:
 *
 *   if (seed != mine) return weft_callback_failed(WEFT_INVALID_ARGUMENT, "the checkpoint was saved with another seed");
 *
 * The call of weft that fails by it has the sentence in its own, on all ranks that it fails on. Copied; longer than 4,095 bytes it is cut;
 * NULL: none. Any thread, and only inside such a function. */
WEFT_EXPORT weft_result_t weft_callback_failed(weft_result_t result, const char* sentence);

WEFT_END_DECLS

#endif /* WEFT_ERROR_H_ */
