/* Several operations started together.
 *
 *   weft_batch_begin();
 *   weft_send(x, n, WEFT_FLOAT32, next, 0, group, NULL, NULL);
 *   weft_recv(y, n, WEFT_FLOAT32, previous, 0, NULL, group, NULL, NULL);
 *   weft_all_reduce(z, z, m, WEFT_FLOAT32, WEFT_SUM, other_group, NULL, NULL);
 *   weft_batch_end();
 *
 * Between begin and end, collectives, messages and their _v and _iov forms are checked and queued, but not
 * started. weft_batch_end() starts all of them and then waits for those that had no work argument, so
 * their order across groups cannot deadlock. Works from inside a batch return BAD_STATE until
 * it has ended. Within a batch, operations of one group start by priority (weft_call_t), larger first,
 * and with equal priority in the order of the calls; ranks must agree on that order.
 *
 * Where a batch cannot be completed, because its program has failed in the middle of it, weft_batch_cancel() takes the place
 * of weft_batch_end(): nothing of it is started, and no peer is left waiting for it.
 *
 * Calls that make or split groups are not queued: they run at once, before the operations of the batch.
 *
 * Batches nest; the outermost weft_batch_end() starts all that was queued. A batch belongs to the thread that began it.
 */
#ifndef WEFT_BATCH_H_
#define WEFT_BATCH_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Begins a batch on this thread, or one more level of it. Never fails. */
WEFT_EXPORT weft_result_t weft_batch_begin(void);

/* Ends the innermost level. For the outermost level: starts the queued operations and waits for those without a work
 * argument. Returns the first failure to start one, or else the first failure among those it has waited
 * for, after all of them have ended. If an operation cannot be started, the later ones of that group are not
 * started either, and their works say why. ABORTED if an inner level was cancelled: nothing is started then.
 * BAD_STATE without weft_batch_begin(). */
WEFT_EXPORT weft_result_t weft_batch_end(void);

/* Ends the innermost level and gives up the whole batch. What was queued is never started; works from inside the batch end
 * with ABORTED. Every group that has an operation in the batch is aborted, as by weft_group_abort(): its other ranks may
 * wait for that operation, or would take this rank's next one for it. Groups without one go on. If there
 * are outer levels, what is called in them is not started either, and the outermost weft_batch_end() returns ABORTED. Never
 * waits for peers. BAD_STATE without weft_batch_begin(). */
WEFT_EXPORT weft_result_t weft_batch_cancel(void);

WEFT_END_DECLS

#endif /* WEFT_BATCH_H_ */
