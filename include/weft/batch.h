/* Several operations started together, and groups made together.
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
 * Calls that make or split groups are not queued: they run at once, before the operations of the batch. The two below that note a
 * group are for a thread that is several of its ranks, as in programs for NCCL:
 *
 *   weft_batch_begin();
 *   for (int i = 0; i < 4; ++i) weft_batch_group_create_from_id(&id, size, first + i, NULL, &groups[i]);
 *   weft_batch_end();  (all four are made)
 *
 * Batches nest; the outermost weft_batch_end() starts all that was queued. A batch belongs to the thread that began it.
 */
#ifndef WEFT_BATCH_H_
#define WEFT_BATCH_H_

#include "weft/group.h"
#include "weft/store.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Begins a batch on this thread, or one more level of it. Never fails. */
WEFT_EXPORT weft_result_t weft_batch_begin(void);

/* Ends the innermost level. For the outermost level: makes the groups that were noted, then starts the queued operations and waits
 * for those without a work argument. Returns the first failure to make a group, or else the first one to start an
 * operation, or else the first failure among those it has waited for, after all of them have ended. If a group cannot be
 * made, the others are given up, and none is set; operations are started all the same. If an operation cannot be started, the later ones of that group are not
 * started either, and their works say why. ABORTED if an inner level was cancelled: nothing is started then.
 * BAD_STATE without weft_batch_begin(). */
WEFT_EXPORT weft_result_t weft_batch_end(void);

/* Ends the innermost level and gives up the whole batch. What was queued is never started; works from inside the batch end
 * with ABORTED. Every group that has an operation in the batch is aborted, as by weft_group_abort(): its other ranks may
 * wait for that operation, or would take this rank's next one for it. Groups without one go on. If there
 * are outer levels, what is called in them is not started either, and the outermost weft_batch_end() returns ABORTED. Never
 * waits for peers. BAD_STATE without weft_batch_begin(). */
WEFT_EXPORT weft_result_t weft_batch_cancel(void);

/* In a batch: notes a group that the outermost weft_batch_end() makes, as weft_group_create_from_id() would. The noted groups are
 * made at the same time, each on a thread of its own, so that they may be several ranks of one group. *group is set by
 * weft_batch_end(), if all are made, and must be there until then; id and config are copied. Outside of a batch:
 * weft_group_create_from_id().
 * Errors: of the arguments at once, INVALID_ARGUMENT, UNSUPPORTED, FORKED; INVALID_USAGE for more than 256 groups; all others from
 * weft_batch_end(). */
WEFT_EXPORT weft_result_t weft_batch_group_create_from_id(const weft_unique_id_t* id, int size,
                                                          int rank,
                                                          const weft_group_config_t* config,
                                                          weft_group_t* group);

/* The same for weft_group_split(). Splits of one handle are made one after the other, in the order of the calls. `parent` must
 * live until the batch has ended.
 * Errors: of the arguments at once, INVALID_ARGUMENT, FORKED, BAD_STATE; INVALID_USAGE as above; all others from weft_batch_end(). */
WEFT_EXPORT weft_result_t weft_batch_group_split(weft_group_t parent, int color, int key,
                                                 const weft_group_config_t* config,
                                                 weft_group_t* group);

WEFT_END_DECLS

#endif /* WEFT_BATCH_H_ */
