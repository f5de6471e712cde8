/* The ends of many works, told to a thread of your own.
 *
 *   weft_completion_queue_t queue;
 *   weft_completion_queue_create(NULL, &queue);
 *   ...
 *   weft_all_reduce(x, x, n, WEFT_FLOAT32, WEFT_SUM, group, NULL, &work);   // any thread
 *   weft_completion_queue_add(queue, work, (uint64_t)(uintptr_t)future);
 *   weft_work_free(work);
 *   ...
 *   weft_completion_t ended[64];                                            // the thread that waits
 *   size_t count;
 *   while (weft_completion_queue_wait(queue, 0, ended, 64, &count) == WEFT_SUCCESS) ...
 *
 * It takes the place of callbacks (weft_work_on_complete), which run on whichever thread ends the
 * operation: with a queue no code of the program runs on a thread of weft's. One queue takes works
 * of any groups, from any threads; works of messages and of batches are like all others. The
 * buffers of an operation are the caller's again when its completion has been taken.
 *
 * A thread that waits moves the operations that it waits for, as in weft_work_wait; callbacks of other works
 * that end meanwhile run on it. With WEFT_PROGRESS=caller it moves all operations of the process
 * while works of the queue are under way.
 *
 * Thread rule: any thread, several at once; each completion is taken once.
 * weft_completion_queue_destroy is the last call on a handle, but other threads may be inside
 * weft_completion_queue_wait then. In a forked child all calls on a queue of the parent's return FORKED, and do
 * nothing.
 */
#ifndef WEFT_COMPLETION_QUEUE_H_
#define WEFT_COMPLETION_QUEUE_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* A place where completions stand until they are taken. */
typedef struct weft_completion_queue* weft_completion_queue_t;

/* How a queue is made; pass NULL for all defaults. */
typedef struct weft_completion_queue_config {
  size_t struct_size;
  int64_t idle_timeout_ns; /* how long a wait with timeout_ns 0 lasts while no work is under way; 0:
                              WEFT_TIMEOUT_S or 1800 s */
} weft_completion_queue_config_t;

/* The end of an operation. This struct never changes. */
typedef struct weft_completion {
  uint64_t token;       /* as it was given to weft_completion_queue_add */
  weft_result_t result; /* of the operation */
  int32_t reserved;     /* 0 */
  const char* message;  /* the sentence of a failure, "" after WEFT_SUCCESS; valid until this
                           thread's next weft_completion_queue_wait or weft_completion_queue_poll */
} weft_completion_t;

/* Makes a queue. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. Any thread. */
WEFT_EXPORT weft_result_t weft_completion_queue_create(const weft_completion_queue_config_t* config,
                                                       weft_completion_queue_t* queue);

/* Has the end of `work` told by `queue`, together with `token`, which means nothing to weft; a work
 * that has ended is told at once. The handle may be freed afterwards: the completion comes all the
 * same. Keep it to ask for the fields of a failure (weft_work_error_info). A work has one queue, or
 * one callback. Never waits. Errors: INVALID_ARGUMENT, INVALID_USAGE for a second one, BAD_STATE
 * while the work's batch has not ended, OUT_OF_MEMORY. */
WEFT_EXPORT weft_result_t weft_completion_queue_add(weft_completion_queue_t queue, weft_work_t work,
                                                    uint64_t token);

/* Waits until an operation has ended, and takes what has: completions[0] to completions[*count - 1],
 * at most `capacity` (> 0), in the order of their ends. The rest stays for the next call. That an
 * operation failed is said by its completion, and is no failure of this call.
 *
 * timeout_ns > 0: gives up after that long with WEFT_IN_PROGRESS. 0: waits as long as works are under
 * way, each of which ends by its own deadline. While there are none, another thread may add one, so it
 * waits for idle_timeout_ns and then gives up with WEFT_IN_PROGRESS; a thread that serves the queue calls again.
 *
 * *count is 0 if none was taken: with WEFT_IN_PROGRESS, and with WEFT_SUCCESS after
 * weft_completion_queue_wake. Errors: INVALID_ARGUMENT (nothing is written), OUT_OF_MEMORY, BAD_STATE when
 * the queue is destroyed meanwhile. */
WEFT_EXPORT weft_result_t weft_completion_queue_wait(weft_completion_queue_t queue,
                                                     int64_t timeout_ns,
                                                     weft_completion_t* completions,
                                                     size_t capacity, size_t* count);

/* As weft_completion_queue_wait, but never waits: WEFT_SUCCESS with *count 0 if nothing has ended.
 * May move the operations forward. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
WEFT_EXPORT weft_result_t weft_completion_queue_poll(weft_completion_queue_t queue,
                                                     weft_completion_t* completions,
                                                     size_t capacity, size_t* count);

/* Has one weft_completion_queue_wait, under way or the next one, return WEFT_SUCCESS with *count 0 as soon
 * as it has no completions to return. To wake N threads call it N times. Never waits. Errors:
 * INVALID_ARGUMENT. */
WEFT_EXPORT weft_result_t weft_completion_queue_wake(weft_completion_queue_t queue);

/* *pending gets the number of works that were added and whose completions have not been taken. Never
 * waits. Errors: INVALID_ARGUMENT. */
WEFT_EXPORT weft_result_t weft_completion_queue_pending(weft_completion_queue_t queue,
                                                        size_t* pending);

/* *fd gets a file descriptor for poll, select and epoll, not to be read, written or closed: it is readable while
 * completions stand in the queue. Take them with weft_completion_queue_poll. A queue makes it when first asked, closes
 * it when it is destroyed, and sees to it in between that works are moved without anybody waiting for them; with
 * WEFT_PROGRESS=caller the program has to (weft_progress_fd). Never waits. Errors: INVALID_ARGUMENT,
 * SYSTEM_ERROR when none can be had. */
WEFT_EXPORT weft_result_t weft_completion_queue_fd(weft_completion_queue_t queue, int* fd);

/* Gives the queue back and waits for nobody. Works that were added go on; what they would have told
 * is dropped, and so are completions that nobody has taken. Threads inside
 * weft_completion_queue_wait return BAD_STATE. NULL is fine. Errors: INVALID_ARGUMENT. */
WEFT_EXPORT weft_result_t weft_completion_queue_destroy(weft_completion_queue_t queue);

WEFT_END_DECLS

#endif /* WEFT_COMPLETION_QUEUE_H_ */
