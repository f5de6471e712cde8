/* The global norm of a step's gradients: of one context, of several, and of a model whose parts lie
 * on different ranks.
 *
 * With tensor or pipeline parallelism a rank's context has a part of the model, and its mesh the
 * ranks that have the same part. One norm and one clip over all parts:
 *
 *   weft_shard_norm_t norm = {.struct_size = sizeof norm};
 *   weft_shard_gradient_norm(context, NULL, &norm);       after finish: of this part
 *   weft_shard_norm_sum(&norm, parts, NULL);              parts: a group that has each part once
 *   update.norm = &norm;
 *   weft_shard_optimizer_step(context, &update, &result);
 *
 * A param that several parts have is counted by one of them; the others declare it with
 * WEFT_SHARD_PARAM_NOT_COUNTED. If any part has a gradient that is infinite or NaN, all of them
 * skip, and their loss scales move alike. docs/sharding.md
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a number that gradient_norm never
 * writes); collective calls also have those of collective.h.
 *
 * Thread rule: at each call. `stream` is NULL for host memory.
 */
#ifndef WEFT_SHARD_NORM_H_
#define WEFT_SHARD_NORM_H_

#include "weft/shard_step.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Finds the norm between finish and optimizer_step, or step_end, with or without an optimizer in
 * the context: for clipping and for skipping updates in one of your own, and for a model in
 * several contexts. Params with WEFT_SHARD_PARAM_NOT_COUNTED have no part in it. Changes nothing,
 * and may be called again. Collective over the context's mesh; thread rule as shard.h. Errors:
 * BAD_STATE if not after finish of a TRAIN step, or after its optimizer_step or drop_gradients. */
WEFT_EXPORT weft_result_t weft_shard_gradient_norm(weft_shard_context_t context, void* stream,
                                                   weft_shard_norm_t* norm);

/* Adds the norm of another context's gradients: *norm is then that of both, as if all params were
 * in one context, to the bit. Not collective; any thread. Errors: INVALID_ARGUMENT, also for
 * gradients of another loss scale. */
WEFT_EXPORT weft_result_t weft_shard_norm_add(weft_shard_norm_t* norm,
                                              const weft_shard_norm_t* other);

/* Adds the norms of other ranks' gradients: *norm is then that of all ranks of `group`, as if all
 * of their params were in one context: the same on every rank, to the bit, whatever their order.
 * Each rank passes another part of the model, so ranks of one mesh, which have the same norm, are
 * in different groups. Collective over `group`, blocking, with the group's deadline; thread rule
 * as collective.h. Errors: MISMATCH on all ranks, naming the rank whose gradients have another
 * loss scale, and the group can go on. After any error *norm is as it was. */
WEFT_EXPORT weft_result_t weft_shard_norm_sum(weft_shard_norm_t* norm, weft_group_t group,
                                              void* stream);

WEFT_END_DECLS

#endif /* WEFT_SHARD_NORM_H_ */
