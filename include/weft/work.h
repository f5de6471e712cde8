/* An operation under way.
 *
 *   weft_work_t work;
 *   weft_all_reduce(x, x, n, WEFT_FLOAT32, WEFT_SUM, group, NULL, &work);
 *   compute();
 *   weft_work_wait(work, 0);
 *   weft_work_free(work);
 *
 * A thread that waits for many works takes their ends from a queue (completion_queue.h).
 *
 * Works complete without anybody calling wait: a progress thread of the process, which sleeps when
 * there is nothing to do, finishes what nobody waits for. To start an operation is to queue it: the
 * call does not wait for another thread's blocking call on the group, nor for its callbacks. What is
 * started while another thread is in a call on the group comes after that call, and before any call
 * made later. A start that fails has started nothing, and peers have seen nothing (SYSTEM_ERROR when
 * the progress thread cannot be made, OUT_OF_MEMORY). Thread rule: any thread, several at once,
 * except that weft_work_free is the last call on a handle. In a forked child all calls on a work of the
 * parent's return FORKED, and do nothing.
 */
#ifndef WEFT_WORK_H_
#define WEFT_WORK_H_

#include "weft/error.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Never waits. *done = 1 when the operation has ended, well or not, else 0. Returns the operation's
 * result once it has ended, WEFT_SUCCESS before. May move the operation forward. */
WEFT_EXPORT weft_result_t weft_work_test(weft_work_t work, int* done);

/* Waits until the operation has ended and returns its result. timeout_ns > 0: gives up waiting
 * after that long with WEFT_IN_PROGRESS and leaves the operation alone; 0: the operation's own
 * deadline is the only one. */
WEFT_EXPORT weft_result_t weft_work_wait(weft_work_t work, int64_t timeout_ns);

/* Makes `stream`, a cudaStream_t, wait for the operation: what is put on the stream afterwards begins when it has ended.
 * Does not wait itself. UNSUPPORTED for works of host groups, which have no streams. */
WEFT_EXPORT weft_result_t weft_work_stream_wait(weft_work_t work, void* stream);

/* Never waits and never moves anything: WEFT_IN_PROGRESS until the operation has ended, then its
 * result. */
WEFT_EXPORT weft_result_t weft_work_error(weft_work_t work);

/* Why the operation has failed, as fields; asked on any thread, and without a trace in weft_last_error(), which
 * weft_work_error sets. Never waits and never moves anything: WEFT_IN_PROGRESS, with nothing
 * written, until the operation has ended. Then *info is filled, whose struct_size must be set; with all
 * unknown if it ended well. Errors: INVALID_ARGUMENT, BAD_STATE while the work's batch has not ended. */
WEFT_EXPORT weft_result_t weft_work_error_info(weft_work_t work, weft_error_info_t* info);

/* The same as a sentence, "" if the operation ended well. Valid until weft_work_free. Errors: as
 * weft_work_error_info. */
WEFT_EXPORT weft_result_t weft_work_error_message(weft_work_t work, const char** message);

/* Called once when the operation has ended, on the thread that completes it and with no weft lock
 * held, or at once on the calling thread if it has ended already. It may start operations, which never
 * waits, on any group, and may destroy the group, but must not block. */
typedef void (*weft_work_callback_t)(weft_result_t result, void* user);

/* Sets the callback; at most one per work, and none if a completion queue has it (INVALID_USAGE). */
WEFT_EXPORT weft_result_t weft_work_on_complete(weft_work_t work, weft_work_callback_t callback,
                                                void* user);

/* Gives the handle back. An operation that has not ended goes on by itself; its buffers must stay
 * until then. NULL is fine. Errors: INVALID_ARGUMENT. */
WEFT_EXPORT weft_result_t weft_work_free(weft_work_t work);

/* Moves every operation of this process that can move, without waiting. *pending, if not NULL, gets
 * the number of operations that have not ended. For programs that run with WEFT_PROGRESS=caller,
 * where no thread does it. The results of the operations stand in their works; this call never
 * fails. In a forked child it is about the child's own operations. */
WEFT_EXPORT weft_result_t weft_progress(int* pending);

/* A file descriptor for poll, select and epoll, one per process, not to be read, written or closed. It
 * is readable when weft_progress() is worth calling: an operation has ended since the last
 * weft_progress(), or, with WEFT_PROGRESS=caller, operations are pending (then about every
 * millisecond). SYSTEM_ERROR when none can be had. */
WEFT_EXPORT weft_result_t weft_progress_fd(int* fd);

WEFT_END_DECLS

#endif /* WEFT_WORK_H_ */
