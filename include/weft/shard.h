/* Shard managers: DDP, ZeRO and FSDP behind calls that any autograd can make.
 *
 * mesh -> context -> unit -> param. A unit is a group of params that are gathered and reduced together, usually one
 * transformer block; a param is a view into it. The manager owns the storage of parameters and gradients (you get views), gathers a
 * unit before it is used, merges units into buckets, and reduces a bucket as soon as its last gradient is ready, while backward
 * goes on. docs/sharding.md explains a step call by call.
 *
 *   setup, the same on every rank          every step
 *   -----------------------------          ----------
 *   weft_mesh_create                       weft_shard_step_begin
 *   weft_shard_context_create                for each micro-batch
 *     weft_shard_context_optimizer             weft_shard_microbatch_begin
 *     weft_shard_unit_begin                    weft_shard_pre_forward / post_forward   per unit
 *     weft_shard_unit_add_param ...            weft_shard_pre_backward                 per unit
 *     weft_shard_unit_seal                       weft_shard_grad_ready                 per param
 *   weft_shard_context_finalize                weft_shard_post_backward                per unit
 *   weft_shard_param_load ...                  weft_shard_microbatch_end
 *                                            weft_shard_finish      gradients are reduced from here
 *                                            weft_shard_optimizer_step     or weft_shard_drop_gradients
 *                                            weft_shard_step_end
 *
 * Sharded params (see weft_shard_preset_t) are unsharded only between the pre_ and post_ calls of their unit: ask
 * weft_shard_param_view for their addresses there. A unit may run forward several times and again in backward (recomputing). All
 * ranks must use units with sharded params in the same order. The order may change from step to step: weft records it, compares it
 * between ranks, and prefetches by it in the next step with the same tag.
 *
 * Gradients: write or add them in place at view.grad; the manager zeroes them before. A call that is not legal now returns
 * WEFT_BAD_STATE and sends nothing; the message names the unit, its phase and the last events, and the context stays usable. If
 * only this rank fails (out of memory, bad data), release the others with weft_shard_abort_step.
 *
 * With the same number of ranks, accumulation and micro-batches every preset gives the same bits, whatever is prefetched.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; collective
 * calls also have those of collective.h.
 *
 * Thread rule: weft_shard_grad_ready from any thread; the other calls of one context from one
 * thread at a time. `stream` is NULL for host memory.
 */
#ifndef WEFT_SHARD_H_
#define WEFT_SHARD_H_

#include "weft/mesh.h"
#include "weft/shard_memory.h"
#include "weft/shard_offload.h"
#include "weft/shard_policy.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* All units of a model on a mesh. */
typedef struct weft_shard_context* weft_shard_context_t;
/* Params that are gathered and reduced together; owned by its context. */
typedef struct weft_shard_unit* weft_shard_unit_t;
/* A view into a unit; owned by its context. */
typedef struct weft_shard_param* weft_shard_param_t;

/* ---- context ----------------------------------------------------------------------------------- */

/* When gradients of several micro-batches are reduced. */
typedef enum weft_shard_accumulation {
  WEFT_SHARD_LOCAL_THEN_REDUCE =
      0, /* add locally, reduce during the last micro-batch (PyTorch's no_sync) */
  WEFT_SHARD_REDUCE_EVERY = 1, /* reduce every micro-batch, add what was reduced */
  /* HYBRID_SHARD: reduce every micro-batch within the replica, add, reduce the sums across replicas in the
   * last one; as REDUCE_EVERY where there are no replicas */
  WEFT_SHARD_INNER_EVERY_OUTER_LAST = 2
} weft_shard_accumulation_t;

/* Whether params that are sharded at rest are at the same address whenever they are unsharded. Gradients may move in any case. */
typedef enum weft_shard_views {
  WEFT_SHARD_VIEWS_MOVE = 0, /* each time where there is room: the smallest pool */
  /* A unit has one address in all steps. Units that the planned steps never have unsharded together share a place; the use of a
   * unit whose place another one is using is refused (BAD_STATE). */
  WEFT_SHARD_VIEWS_STABLE = 1,
  /* As STABLE, and each unit has a place of its own: nothing is refused. The pool is as large as all units. */
  WEFT_SHARD_VIEWS_APART = 2
} weft_shard_views_t;

/* Bits of `fields` in weft_shard_config_t and weft_shard_settings_t. */
#define WEFT_SHARD_PREFETCH 1u     /* prefetch is meant as it is, also if it is 0 */
#define WEFT_SHARD_VERIFY_STEPS 2u /* of settings: verify_steps is, also if it is 0 */

/* How a context works; pass NULL for all defaults. */
typedef struct weft_shard_config {
  size_t struct_size;
  size_t bucket_bytes;       /* units are merged up to this size; 0: 25 MiB */
  size_t first_bucket_bytes; /* the bucket that is ready first; 0: 1 MiB */
  weft_shard_accumulation_t accumulation;
  int no_overlap;     /* 1: reduce in weft_shard_finish only; same bits, for comparison */
  int no_average;     /* 1: gradients are summed over ranks; 0: averaged */
  int64_t timeout_ns; /* deadline of each collective; 0: the group's */
  int prefetch;       /* units gathered ahead of the one in use; 0 without WEFT_SHARD_PREFETCH: 1 */
  int microbatches;   /* per step, that the plan expects, up to 4096; 0: 1 */
  /* Limit of the pool: unsharded params, and unsharded gradients where these are sharded; 0: as much as prefetching
   * wants. Prefetching is given up first. */
  size_t memory_budget_bytes;
  int uneven; /* 1: ranks may run out of data before others, see weft_shard_join */
  const weft_shard_allocator_t* allocator; /* copied; NULL: weft's own heap */
  int poison; /* 1: params are filled with 0xff when they are resharded, so that a view that was kept reads NaN. For
                 debugging */
  /* step_end does what weft_shard_context_verify does after every so many training steps; 0: never. */
  int64_t verify_steps;
  uint32_t fields; /* WEFT_SHARD_PREFETCH */
  /* For an autograd that keeps views of params from forward for backward; docs/sharding.md. The same on all ranks. */
  weft_shard_views_t stable_views;
  const weft_shard_offload_t* offload; /* copied; NULL: optimizer state stays in memory */
} weft_shard_config_t;

/* `mesh` is borrowed and must outlive the context. Not collective. NULL config: defaults. */
WEFT_EXPORT weft_result_t weft_shard_context_create(weft_mesh_t mesh,
                                                    const weft_shard_config_t* config,
                                                    weft_shard_context_t* context);

/* What can be changed after finalize. */
typedef struct weft_shard_settings {
  size_t struct_size;
  int prefetch;         /* as in the config; 0 without WEFT_SHARD_PREFETCH: as it is */
  uint32_t fields;      /* WEFT_SHARD_PREFETCH, WEFT_SHARD_VERIFY_STEPS */
  int64_t verify_steps; /* as in the config; 0 without WEFT_SHARD_VERIFY_STEPS: as it is */
} weft_shard_settings_t;

/* Changes settings between steps. With another prefetch one step of each kind is served on demand, and learnt from. To
 * freeze and unfreeze params between steps, declare them trainable, in a group of their own whose learning_rate_factor is 0, with
 * its bit WEFT_OPTIMIZER_LEARNING_RATE_FACTOR, while they are frozen (shard_param_groups.h). They still have gradients, a part in the
 * norm, and moments that go on. Collective. Errors: MISMATCH naming the rank that passes others, and nothing has changed. */
WEFT_EXPORT weft_result_t weft_shard_context_set(weft_shard_context_t context,
                                                 const weft_shard_settings_t* settings);

/* Copies all parameters that are not sharded from mesh rank `root` to all ranks, and HYBRID_SHARD's shards from
 * root's replica to the others, then compares them by hash. Shards that exist once stay as they are
 * (weft_shard_param_load sets them). Collective. Errors: MISMATCH naming the first param that still
 * differs, and those of any collective. */
WEFT_EXPORT weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root);

/* Frees everything, views included. Not collective. NULL is fine. From step_begin until finish has returned (in an
 * evaluation without finish, until step_end) it aborts the step first, as weft_shard_abort_step with the reason "its context was
 * destroyed": peers that wait for this rank, and those that come to wait for it, get ABORTED with its number, and the mesh's
 * group cannot be used any more. At other times it ends what is under way, such as gathers of updated params, with the
 * peers, and leaves the group alone. A save in the background that still reads optimizer state (checkpoint.h) is waited for. Errors:
 * TIMEOUT if it reads at the deadline of its checkpoint, as when a disk hangs, or INTERRUPTED: nothing was freed; call it again when the save has ended. */
WEFT_EXPORT weft_result_t weft_shard_context_destroy(weft_shard_context_t context);

/* ---- units and params ---------------------------------------------------------------------------- */

#define WEFT_SHARD_PARAM_FROZEN 1u   /* no gradient */
#define WEFT_SHARD_PARAM_NO_DECAY 2u /* no weight decay */
/* Its gradients are not zeroed: the caller writes all of one where grad_unset of weft_shard_view_t is 1, and adds to it elsewhere;
 * or it passes gradients to weft_shard_grad_ready, which does that. docs/sharding.md */
#define WEFT_SHARD_PARAM_WRITES_GRAD 4u
/* Another part of the model has this param too, and counts it: left out of the global norm and of
 * `nonfinite` (shard_norm.h); updated, clipped, verified and saved as any other. */
#define WEFT_SHARD_PARAM_NOT_COUNTED 8u

/* How many dimensions a param may have. */
#define WEFT_SHARD_DIMS_MAX 32

/* Opens a unit. Units are declared in the order in which forward uses them. NULL policy: NO_SHARD.
 * Units of one context may have different policies.
 * Errors: INVALID_ARGUMENT (NULL, name empty, no UTF-8 or used twice, preset), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_begin(weft_shard_context_t context, const char* name,
                                                const weft_shard_policy_t* policy,
                                                weft_shard_unit_t* unit);

/* What is declared of a param. Strings and shapes are copied. */
typedef struct weft_shard_param_config {
  size_t struct_size;
  const char* name;
  const int64_t* shape; /* [ndim]; a dimension of 0 is an empty param */
  int ndim;             /* 0: a scalar */
  weft_dtype_t dtype;   /* FLOAT16, BFLOAT16, FLOAT32, FLOAT64; any if the param is frozen */
  uint32_t flags;       /* WEFT_SHARD_PARAM_* */
} weft_shard_param_config_t;

/* Adds a param. Only a frozen one, such as quantised weights or a mask, may be of a type other than the four of
 * config->dtype. Params are given in the order in which forward uses them. Errors: INVALID_ARGUMENT (NULL, name empty, no UTF-8 or
 * used twice, dtype, flags, ndim, product of dimensions), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_add_param(weft_shard_unit_t unit,
                                                    const weft_shard_param_config_t* config,
                                                    weft_shard_param_t* param);

/* Makes the unit use `param` of an earlier unit under this name, as a head does that shares the token table. *tied is a handle
 * of the same storage and gradient. While this unit is in use, the unit that has the param is in use too: a pre_ or
 * post_ call counts for both. Each of the two gives a gradient, and weft adds them. Errors: INVALID_ARGUMENT
 * (NULL, name empty or used twice, a param of this unit or of another context), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_tie_param(weft_shard_unit_t unit, const char* name,
                                                    weft_shard_param_t param,
                                                    weft_shard_param_t* tied);

/* Closes the unit. BAD_STATE if it is closed already. */
WEFT_EXPORT weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit);

/* Where an unsharded param is. It stays there until the next post_ call of its unit if its params are sharded, else
 * from finalize until the context is destroyed. With stable_views it is there again whenever its unit is unsharded. */
typedef struct weft_shard_view {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_view_t) */
  void* data;         /* [count], 64-byte aligned; NULL for an empty param */
  void*
      grad; /* [count], of grad_dtype; NULL when frozen or empty, and outside of backward where gradients are sharded */
  size_t count; /* elements */
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype; /* dtype, or float32 by policy */
  int grad_unset; /* 1: grad holds nothing until grad_ready (WEFT_SHARD_PARAM_WRITES_GRAD) */
} weft_shard_view_t;

/* BAD_STATE before finalize, and outside of the unit's pre_ and post_ calls if its params are sharded. Any
 * thread. */
WEFT_EXPORT weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view);

/* The part of a param that this rank keeps: all of it if nothing is sharded, else elements
 * [begin, begin + count), which may be none. */
typedef struct weft_shard_part {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_part_t) */
  void* data;         /* [count]; NULL if it is offloaded (shard_offload.h) */
  void* grad;         /* [count], reduced, valid after finish until step_end; NULL when frozen */
  size_t begin;       /* elements of the param before it */
  size_t count;
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype;
} weft_shard_part_t;

/* For an optimizer of your own: it updates the data of all parts between finish and step_end, then calls
 * weft_shard_params_updated. If you write parts again before a step has used them, ask for them again first: this call
 * waits until the updated parts have been gathered. BAD_STATE before finalize. Any thread. */
WEFT_EXPORT weft_result_t weft_shard_param_part(weft_shard_param_t param, weft_shard_part_t* part);

/* Says that the caller has written its parts of the params. Where params are not sharded, this gathers the parts of all
 * ranks (asynchronously; pre_forward waits). Where the context has params of kind WEFT_OPTIMIZER_OWN, between optimizer_step and step_end
 * it speaks of these only; else of all params, and main copies are made anew. Collective. BAD_STATE in the middle of a step. */
WEFT_EXPORT weft_result_t weft_shard_params_updated(weft_shard_context_t context, void* stream);

/* As a root: all ranks, each for itself. */
#define WEFT_SHARD_EVERY_RANK (-1)

/* Where a param's values come from. */
typedef struct weft_shard_load {
  size_t struct_size;
  const void* values; /* [count]; NULL is fine where this rank's are not asked for */
  int root;           /* mesh rank whose values are taken, or WEFT_SHARD_EVERY_RANK */
  void* stream;
} weft_shard_load_t;

/* Sets the values of a param between steps: to those of mesh rank `root`, in pieces of 4 MiB, or with
 * WEFT_SHARD_EVERY_RANK to those that each rank passes, which are compared by hash. Collective. Errors: MISMATCH naming the
 * param and the rank that differs, or both params if ranks load different ones. */
WEFT_EXPORT weft_result_t weft_shard_param_load(weft_shard_param_t param,
                                                const weft_shard_load_t* load);

/* Where a param's values go. */
typedef struct weft_shard_read {
  size_t struct_size;
  void* values; /* [count]; NULL is fine where this rank gets none */
  int root;     /* mesh rank that gets the values, the others nothing; or WEFT_SHARD_EVERY_RANK */
  void* stream;
} weft_shard_read_t;

/* Writes the whole param to values on mesh rank `root`, or with WEFT_SHARD_EVERY_RANK on all. With a root no other rank needs room
 * for the param, and ranks that have nothing to send to it do not wait. Between steps or after finish, and after the caller has updated params of kind
 * WEFT_OPTIMIZER_OWN. Collective, with the same root. MISMATCH as param_load. */
WEFT_EXPORT weft_result_t weft_shard_param_read(weft_shard_param_t param,
                                                const weft_shard_read_t* read);

WEFT_END_DECLS

#include "weft/shard_checks.h"
#include "weft/shard_global.h"
#include "weft/shard_info.h"
#include "weft/shard_plan.h"
#include "weft/shard_state.h"
#include "weft/shard_step.h"
#include "weft/shard_units.h"

#endif /* WEFT_SHARD_H_ */
