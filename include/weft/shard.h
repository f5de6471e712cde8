/* Shard managers: DDP, ZeRO and FSDP behind calls that any autograd can make.
 *
 * mesh -> context -> unit -> param. A unit is what is gathered and reduced together, usually one
 * transformer block; a param is a view into it. The manager owns the storage of parameters and
 * gradients (views are handed out), gathers a unit before it is used, merges units into buckets, and
 * reduces a bucket as soon as its last gradient is there, while backward goes on.
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
 *                                            weft_shard_optimizer_step
 *                                            weft_shard_step_end
 *
 * What rests cut (see weft_shard_preset_t) is whole only between pre_ and post_ calls of its unit: ask
 * weft_shard_param_view for the addresses there. A unit may run forward several times and be used
 * again in backward (recomputing); units whose params rest cut are to be used in the same order on
 * all ranks. The order may change from step to step: it is recorded, compared between ranks, and the
 * next step with the same tag prefetches by it.
 *
 * Gradients: write or add them in place at view.grad. The manager zeroes them before they are needed.
 * A call that is not legal now returns WEFT_BAD_STATE, names unit, phase and
 * the last events, and sends nothing; the context stays usable. A failure on this rank alone (out
 * of memory, bad data): weft_shard_abort_step releases the others.
 *
 * At equal rank count, accumulation and micro-batches every preset gives the same bits, whatever is
 * prefetched or overlapped.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; collective
 * calls also have those of collective.h.
 *
 * Thread rule: weft_shard_grad_ready from any thread; the other calls of one context from one
 * thread at a time. `stream` is NULL for host memory.
 */
#ifndef WEFT_SHARD_H_
#define WEFT_SHARD_H_

#include "weft/shard_memory.h"
#include "weft/shard_policy.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Named axes over the ranks of a group. */
typedef struct weft_mesh* weft_mesh_t;
/* All units of a model on a mesh. */
typedef struct weft_shard_context* weft_shard_context_t;
/* What is gathered and reduced together; owned by its context. */
typedef struct weft_shard_unit* weft_shard_unit_t;
/* A view into a unit; owned by its context. */
typedef struct weft_shard_param* weft_shard_param_t;

/* ---- mesh -------------------------------------------------------------------------------------- */

/* How many axes a mesh may have. */
#define WEFT_MESH_AXES_MAX 3

/* Named axes over the ranks of a group, the last one varying fastest; the product of sizes is the
 * group's size. */
typedef struct weft_mesh_config {
  size_t struct_size;
  int axis_count; /* 1..WEFT_MESH_AXES_MAX; 0: one axis named "data" of the group's size */
  const char* axis_names[WEFT_MESH_AXES_MAX];
  int axis_sizes[WEFT_MESH_AXES_MAX];
} weft_mesh_config_t;

/* `group` is borrowed and must outlive the mesh. Collective if there are several axes: it splits the
 * group. Errors: INVALID_ARGUMENT, and those of weft_group_split. */
WEFT_EXPORT weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                                           weft_mesh_t* mesh);
/* The group of the ranks that differ from this one in their place on axis `axis` only; the mesh's own
 * group if there is one axis. It belongs to the mesh: do not destroy it, nor use it afterwards. */
WEFT_EXPORT weft_result_t weft_mesh_axis_group(weft_mesh_t mesh, int axis, weft_group_t* group);

/* NULL is fine; INVALID_USAGE while a context uses it. */
WEFT_EXPORT weft_result_t weft_mesh_destroy(weft_mesh_t mesh);

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

/* How a context works; NULL where one is asked for means all defaults. */
typedef struct weft_shard_config {
  size_t struct_size;
  size_t bucket_bytes;       /* units are merged up to this size; 0: 25 MiB */
  size_t first_bucket_bytes; /* the bucket that is ready first; 0: 1 MiB */
  weft_shard_accumulation_t accumulation;
  int no_overlap;     /* 1: reduce in weft_shard_finish only; same bits, for comparison */
  int no_average;     /* 1: gradients are summed over ranks; 0: averaged */
  int64_t timeout_ns; /* deadline of each collective; 0: the group's */
  int prefetch;       /* units gathered ahead of the one in use; 0: 1; -1: none */
  int microbatches;   /* per step, that the plan expects, up to 4096; 0: 1 */
  /* For what is gathered, and full gradients where these rest cut; 0: as much as prefetching wants.
   * Prefetching is given up first. */
  size_t memory_budget_bytes;
  int uneven; /* 1: ranks may run out of data before others, see weft_shard_join */
  const weft_shard_allocator_t* allocator; /* copied; NULL: weft's own heap */
  int poison; /* 1: what is let go is filled with 0xff: whoever goes on reading a view of what rests cut
                 reads NaN. For debugging */
  /* After every so many training steps step_end does what weft_shard_context_verify does; 0: never. */
  int64_t verify_steps;
} weft_shard_config_t;

/* `mesh` is borrowed and must outlive the context. Not collective. NULL config: defaults. */
WEFT_EXPORT weft_result_t weft_shard_context_create(weft_mesh_t mesh,
                                                    const weft_shard_config_t* config,
                                                    weft_shard_context_t* context);

/* Copies all parameters that rest whole from mesh rank `root` to all ranks, and HYBRID_SHARD's parts from
 * root's replica to the others, then compares them by hash; what exists once stays as it is
 * (weft_shard_param_load sets it). Collective. Errors: MISMATCH naming the first param that still
 * differs, and those of any collective. */
WEFT_EXPORT weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root);

/* Compares by hash what exists more than once, changing nothing: parameters that rest whole, HYBRID_SHARD's
 * parts between replicas, optimizer state likewise. Collective. Errors: MISMATCH naming the first param that
 * differs and the odd rank: the one that has not what most have; all of them where there is no majority. */
WEFT_EXPORT weft_result_t weft_shard_context_verify(weft_shard_context_t context);

/* Frees everything, views included. Not collective. NULL is fine. In the middle of a step call
 * weft_shard_abort_step before, or peers may wait for this rank until their deadline. */
WEFT_EXPORT weft_result_t weft_shard_context_destroy(weft_shard_context_t context);

/* ---- units and params ---------------------------------------------------------------------------- */

#define WEFT_SHARD_PARAM_FROZEN 1u   /* no gradient */
#define WEFT_SHARD_PARAM_NO_DECAY 2u /* no weight decay */

/* How many dimensions a param may have. */
#define WEFT_SHARD_DIMS_MAX 32

/* Opens a unit. Units are declared in the order in which forward uses them. NULL policy: NO_SHARD.
 * Units of one context may have different policies.
 * Errors: INVALID_ARGUMENT (NULL, name empty or used twice, preset), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_begin(weft_shard_context_t context, const char* name,
                                                const weft_shard_policy_t* policy,
                                                weft_shard_unit_t* unit);

/* Adds a param of float16, bfloat16, float32 or float64 elements. ndim 0 is a scalar; a dimension
 * of 0 is an empty param. Params are given in the order in which forward uses them. Errors:
 * INVALID_ARGUMENT (NULL, name empty or used twice, dtype, flags, ndim, product of dimensions),
 * BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_add_param(weft_shard_unit_t unit, const char* name,
                                                    const int64_t* shape, int ndim,
                                                    weft_dtype_t dtype, uint32_t flags,
                                                    weft_shard_param_t* param);

/* The unit uses `param` of an earlier unit, under this name: a head that shares the token table. *tied is a handle like
 * any other: of the same storage and gradient. While the unit is used, so is the unit that has the param: its pre_
 * and post_ calls are both units' calls; each gives a gradient of its own, which is added. Errors: INVALID_ARGUMENT
 * (NULL, name empty or used twice, a param of this unit or of another context), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_unit_tie_param(weft_shard_unit_t unit, const char* name,
                                                    weft_shard_param_t param,
                                                    weft_shard_param_t* tied);

/* Closes the unit. BAD_STATE if it is closed already. */
WEFT_EXPORT weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit);

/* Where a whole param is. What does not rest cut is there from finalize until the context is
 * destroyed; what does, until the next post_ call of its unit. */
typedef struct weft_shard_view {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_view_t) */
  void* data;         /* [count], 64-byte aligned; NULL for an empty param */
  void* grad;   /* [count], of grad_dtype; NULL when frozen or empty, and outside of backward where
                         gradients rest cut */
  size_t count; /* elements */
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype; /* dtype, or float32 by policy */
} weft_shard_view_t;

/* BAD_STATE before finalize, and outside of the unit's pre_ and post_ calls if its params rest cut. Any
 * thread. */
WEFT_EXPORT weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view);

/* What this rank keeps of a param: all of it where nothing is cut, else elements
 * [begin, begin + count) of it, which may be none. */
typedef struct weft_shard_part {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_part_t) */
  void* data;         /* [count], where it rests */
  void* grad;         /* [count], reduced, valid after finish until step_end; NULL when frozen */
  size_t begin;       /* elements of the param before it */
  size_t count;
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype;
} weft_shard_part_t;

/* For a caller's own optimizer: it updates data of all parts between finish and step_end, then calls
 * weft_shard_params_updated. Whoever writes parts again before a step has used them asks for them anew: this waits
 * for a gather of updated parts, which must not see it. BAD_STATE before finalize. Any thread. */
WEFT_EXPORT weft_result_t weft_shard_param_part(weft_shard_param_t param, weft_shard_part_t* part);

/* The caller has written its parts of the params: where params rest whole, the parts of all ranks are
 * gathered (asynchronously; pre_forward waits). Collective. BAD_STATE in the middle of a step. */
WEFT_EXPORT weft_result_t weft_shard_params_updated(weft_shard_context_t context);

/* For weft_shard_param_load: every rank passes the values. */
#define WEFT_SHARD_EVERY_RANK (-1)

/* Gives a param its values between steps: those of mesh rank `root`, in pieces of 4 MiB, or with
 * WEFT_SHARD_EVERY_RANK those that each rank passes, which are compared by hash. values: [count]; NULL is
 * fine on ranks other than root. Collective. Errors: MISMATCH naming param and odd rank, or both params if ranks load others. */
WEFT_EXPORT weft_result_t weft_shard_param_load(weft_shard_param_t param, const void* values,
                                                int root);

/* Writes the whole param to values [count], on every rank. Between steps. Collective. MISMATCH as param_load. */
WEFT_EXPORT weft_result_t weft_shard_param_read(weft_shard_param_t param, void* values);

WEFT_END_DECLS

#include "weft/shard_checks.h"
#include "weft/shard_plan.h"
#include "weft/shard_step.h"
#include "weft/shard_units.h"

#endif /* WEFT_SHARD_H_ */
