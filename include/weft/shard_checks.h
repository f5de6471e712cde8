/* Calls that find mistakes which only make training worse or slower: the same data on two ranks, a rank that lags, shards
 * of different size, weights that differ. For the last see also weft_shard_param_load with
 * WEFT_SHARD_EVERY_RANK, and verify_steps in weft_shard_config_t.
 *
 *   weft_shard_check_samples(context, batch, batch_bytes);        before a micro-batch uses its first unit
 *   ...
 *   weft_shard_report_t report = {.struct_size = sizeof report};
 *   weft_shard_context_report(context, &report, NULL, 0);         now and then, between steps
 *   if (report.slowest_busy_ns > 1.1 * report.median_busy_ns) ... rank report.slowest_rank is slow
 *
 * All are collective over the mesh's group: every rank makes the call, at the same point of its sequence of calls. Errors of all:
 * INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE, and those of collective.h. After
 * MISMATCH the context is unchanged and can go on.
 *
 * Thread rule: as shard.h.
 */
#ifndef WEFT_SHARD_CHECKS_H_
#define WEFT_SHARD_CHECKS_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Checks that no other rank has the same samples. `samples` [bytes] is the samples themselves, or their indices if equal
 * samples may occur legitimately. Compares digests of 16 bytes over all ranks of the mesh; a rank without samples
 * (bytes 0, samples may be NULL) takes part but is not compared. Call it any time after finalize, except between the first pre_ call (or
 * unshard_start) of a micro-batch and its end. Errors: MISMATCH naming the ranks with the same samples, BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_check_samples(weft_shard_context_t context,
                                                   const void* samples, size_t bytes);

/* Compares by hash everything that exists more than once: parameters that are not sharded, HYBRID_SHARD's shards between
 * replicas, and optimizer state. Changes nothing. Collective. Errors: MISMATCH naming the first param that
 * differs and the rank whose values differ from the majority's, or all ranks if there is no majority. */
WEFT_EXPORT weft_result_t weft_shard_context_verify(weft_shard_context_t context);

/* What one rank keeps, and its steps. Times are per finished training step, averaged since the last report or since
 * finalize; 0 if there were no steps. */
typedef struct weft_shard_rank_report {
  size_t struct_size;     /* set by the caller in the first one: sizeof(weft_shard_rank_report_t) */
  uint64_t element_count; /* of params that this rank updates, or keeps if they are frozen */
  uint64_t param_bytes;   /* kept between steps, as the next two */
  uint64_t grad_bytes;
  uint64_t optimizer_bytes;
  uint64_t pool_bytes;      /* for unsharded params and gradients */
  int64_t step_count;       /* training steps finished so far */
  int64_t busy_ns;          /* from step_begin until finish is called, without waiting in weft */
  int64_t gather_waited_ns; /* for parameters, in pre_ calls */
  int64_t reduce_waited_ns; /* for reductions */
} weft_shard_rank_report_t;

/* A summary of all ranks' reports. If several ranks share an extreme, the first one is named. */
typedef struct weft_shard_report {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_report_t) */
  int rank_count;     /* of the mesh's group */
  int largest_rank;   /* whose element_count is the largest */
  int smallest_rank;
  int slowest_rank; /* whose busy_ns is the longest; -1: there was no step since the last report */
  uint64_t largest_element_count;
  uint64_t smallest_element_count;
  int64_t slowest_busy_ns;
  int64_t median_busy_ns; /* over the ranks; the mean of the middle two if their number is even */
} weft_shard_report_t;

/* Gathers all ranks' reports, between steps or after finish. `ranks`: [rank_count], by rank, rank_count that of the
 * mesh's group; or NULL and 0. Errors: INVALID_ARGUMENT (rank_count), BAD_STATE in the middle of a step. */
WEFT_EXPORT weft_result_t weft_shard_context_report(weft_shard_context_t context,
                                                    weft_shard_report_t* report,
                                                    weft_shard_rank_report_t* ranks,
                                                    int rank_count);

WEFT_END_DECLS

#endif /* WEFT_SHARD_CHECKS_H_ */
