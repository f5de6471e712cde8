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
 * Calls that make or split groups are not queued: they run at once, before the operations of the batch.
 *
 * Batches nest; the outermost weft_batch_end() starts them. A batch belongs to the thread that began it.
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
 * started either, and their works say why. BAD_STATE without weft_batch_begin(). */
WEFT_EXPORT weft_result_t weft_batch_end(void);

WEFT_END_DECLS

#endif /* WEFT_BATCH_H_ */
