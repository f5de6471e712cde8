/* The plan of a shard context: what it will keep, need at its peak and send.
 *
 *   weft_mesh_config_t cluster = {sizeof cluster, 2, {"node", "gpu"}, {128, 8}};
 *   weft_mesh_create_dry(&cluster, 0, &mesh);           // 1,024 ranks that do not exist, seen by rank 0
 *   weft_shard_context_create(mesh, &config, &context);
 *   ... units and params, weft_shard_context_optimizer ...
 *   weft_shard_plan_t plan = {sizeof plan};
 *   weft_shard_context_plan(context, &plan);            // plan.peak_bytes, plan.sent_bytes
 *
 * A plan depends only on declarations. So it is made without peers, in memory that does not grow with the
 * model, and finalize does exactly what it says.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; finalize also has
 * those of collective.h.
 *
 * Thread rule: the calls of one context from one thread at a time, as in shard.h.
 */
#ifndef WEFT_SHARD_PLAN_H_
#define WEFT_SHARD_PLAN_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What a context will do. Bytes are per rank. */
typedef struct weft_shard_plan {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_plan_t) */
  size_t unit_count;
  size_t param_count;
  size_t bucket_count;
  uint64_t element_count; /* trainable and frozen */
  uint64_t param_bytes;
  uint64_t grad_bytes;
  uint64_t padding_bytes;   /* padding in params and gradients before they are sharded */
  uint64_t traffic_bytes;   /* payload reduced per step */
  uint64_t optimizer_bytes; /* main parameters and moments */
  uint64_t pool_bytes; /* for unsharded params and gradients: what the peak adds to resting_bytes */
  uint64_t gather_bytes; /* parameters gathered per step, including those gathered after updates */
  uint64_t largest_unit_bytes; /* of sharded parameters */
  int prefetch;                /* what the budget allows */
  uint64_t resting_bytes;      /* param_bytes + grad_bytes + optimizer_bytes */
  uint64_t peak_bytes;         /* resting_bytes + pool_bytes */
  /* What a rank sends per step: a gathering or reduction among n ranks counts its bytes times (n-1)/n, an
   * all_reduce twice. */
  uint64_t sent_bytes;
  uint64_t sent_inner_bytes; /* the part of it along the mesh's last axis (HYBRID_SHARD, HPZ) */
  /* What pool_bytes would be if views moved: the rest of it is the price of stable_views. */
  uint64_t moving_pool_bytes;
  /* What this rank writes to a checkpoint, and the memory that saving one in the background takes on top of the peak
   * (checkpoint.h). State that is offloaded is written too, and takes no such memory. */
  uint64_t checkpoint_bytes;
  /* Optimizer state, and params if they are offloaded too, in this rank's file (shard_offload.h), and what a step moves between it and
   * memory at most: its update, and its gathers; 0 without offload. optimizer_bytes is then what stays in memory. */
  uint64_t offload_bytes;
  uint64_t offload_read_bytes;
  uint64_t offload_written_bytes;
  uint64_t
      checkpoint_value_bytes; /* of checkpoint_bytes, params alone: the memory that saving takes with in_place */
} weft_shard_plan_t;

/* Works out the plan on this rank alone: allocates no parameters and communicates with nobody, so it also works on
 * a dry mesh. After finalize it is the plan that finalize returned. Errors: those of finalize that need no
 * peers: BAD_STATE (a unit is not sealed), INVALID_ARGUMENT (a mesh that HYBRID_SHARD or HPZ cannot use),
 * UNSUPPORTED (params that the optimizer cannot update), OUT_OF_MEMORY (memory_budget_bytes is below the least). */
WEFT_EXPORT weft_result_t weft_shard_context_plan(weft_shard_context_t context,
                                                  weft_shard_plan_t* plan);

/* The part of a param that mesh rank `rank` keeps: all of it if nothing is sharded, else elements [*begin, *begin + *count),
 * which may be none. weft_shard_param_part returns the same on that rank. Legal as soon as all units are sealed, on
 * a dry mesh too. A unit that you declare later may move the part if units share a bucket, so ask after finalize when you
 * write checkpoints. Errors: those of weft_shard_context_plan. */
WEFT_EXPORT weft_result_t weft_shard_param_interval(weft_shard_param_t param, int rank,
                                                    size_t* begin, size_t* count);

/* Says in which order forward uses units: units[0..n), in which a unit may appear several times (an embedding with a tied
 * head is used at both ends of a model); backward is the reverse. Without it, or with n 0, each unit is used once, as declared. A
 * unit that is missing in the list is not used. The plan, the budget and the prefetching of the first step follow this order. Give
 * it if units are not used once each: otherwise the first step of a mode and tag gathers on demand from the first
 * unexpected call on, and the order that it records may need a larger pool than the plan said. A step may still use another
 * order. Call it before finalize, with the same list on all ranks; the last call counts. Errors: INVALID_ARGUMENT
 * (NULL, a unit of another context), BAD_STATE after finalize. */
WEFT_EXPORT weft_result_t weft_shard_hint_order(weft_shard_context_t context,
                                                const weft_shard_unit_t* units, size_t n);

/* One pass through a unit, from its pre_ to its post_ call. */
typedef struct weft_shard_run {
  weft_shard_unit_t unit;
  int backward; /* 0: pre_forward, post_forward; 1: pre_backward, post_backward */
} weft_shard_run_t;

/* Says which passes a micro-batch of a training step makes, runs[0..n), where units are not used as weft_shard_hint_order can
 * say it: forward and backward of one unit by turns, as a stage of a pipeline makes them for the micro-batches in flight (forward,
 * forward, backward, forward, backward, backward), or two backwards for each forward, for the gradients of inputs and those of
 * weights. A pipeline's step is one micro-batch to weft: its gradients are reduced once, with the last backward. The first step
 * follows the plan then, as weft_shard_hint_order says; an EVAL step is expected to make the forwards alone. weft_shard_unit_within
 * does not count. n 0: as without hints. Call it before finalize, with the same list on all ranks; the last call of the two counts.
 * Errors: INVALID_ARGUMENT (NULL, `backward` that is neither 0 nor 1, a unit of another context, backward of a unit before any
 * forward of it), BAD_STATE after finalize. */
WEFT_EXPORT weft_result_t weft_shard_hint_runs(weft_shard_context_t context,
                                               const weft_shard_run_t* runs, size_t n);

/* Says that forward uses `unit` inside `outer`, as modules that call others are nested: between the outer one's pre_forward
 * and post_forward, and in backward between its pre_backward and post_backward. The plan, the budget and the prefetching of the first step then
 * keep the outer unit meanwhile; without it they take one unit to end before the next one begins. weft_shard_hint_order
 * speaks of the units inside one outer unit, and of the outermost ones, as it does of all. A unit is inside one other; the last
 * call counts. Call it before finalize, alike on all ranks. Errors: INVALID_ARGUMENT (NULL, a unit of another context, an `outer` that
 * was not added before `unit`), BAD_STATE after finalize. */
WEFT_EXPORT weft_result_t weft_shard_unit_within(weft_shard_unit_t unit, weft_shard_unit_t outer);

/* Ends the set-up: compares names, shapes, types and order of all units and params between the
 * ranks by hash and allocates their storage, zeroed. Collective. `plan` may be NULL. Errors:
 * MISMATCH naming the first differing unit or param and the rank, BAD_STATE (a unit is not sealed,
 * or called twice), OUT_OF_MEMORY, INVALID_USAGE on a dry mesh, and those of any collective. */
WEFT_EXPORT weft_result_t weft_shard_context_finalize(weft_shard_context_t context,
                                                      weft_shard_plan_t* plan);

WEFT_END_DECLS

#endif /* WEFT_SHARD_PLAN_H_ */
