/* Shard managers: data parallel training behind calls that any autograd can make.
 *
 * mesh -> context -> unit -> param. A unit is what is gathered and reduced together, usually one
 * transformer block; a param is a view into it. The manager owns the storage of parameters and
 * gradients (views are handed out), merges units into buckets, and reduces a bucket as soon as its
 * last gradient is there, while backward goes on.
 *
 *   setup, the same on every rank          every step
 *   -----------------------------          ----------
 *   weft_mesh_create                       weft_shard_step_begin
 *   weft_shard_context_create                for each micro-batch
 *     weft_shard_unit_begin                    weft_shard_microbatch_begin
 *       weft_shard_unit_add_param ...            weft_shard_pre_forward / post_forward   per unit
 *     weft_shard_unit_seal                       weft_shard_pre_backward                 per unit
 *   weft_shard_context_finalize                    weft_shard_grad_ready                 per param
 *   weft_shard_param_view ...                    weft_shard_post_backward                per unit
 *   (write initial values)                     weft_shard_microbatch_end
 *   weft_shard_context_broadcast             weft_shard_finish      gradients are reduced from here
 *                                            (update the parameters)
 *                                            weft_shard_step_end
 *
 * Gradients: write or add them in place at view.grad. The manager zeroes them in
 * weft_shard_step_begin. A call that is not legal now returns WEFT_BAD_STATE, names unit, phase and
 * the last events, and sends nothing; the context stays usable. A failure on this rank alone (out
 * of memory, bad data): weft_shard_abort_step releases the others.
 *
 * This version has the preset NO_SHARD (DDP); the others return WEFT_UNSUPPORTED.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; collective
 * calls also have those of collective.h.
 *
 * Thread rule: weft_shard_grad_ready from any thread; the other calls of one context from one
 * thread at a time. `stream` is NULL for host memory.
 */
#ifndef WEFT_SHARD_H_
#define WEFT_SHARD_H_

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

/* `group` is borrowed and must outlive the mesh. Not collective. Errors: INVALID_ARGUMENT,
 * UNSUPPORTED (several axes). */
WEFT_EXPORT weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                                           weft_mesh_t* mesh);
/* NULL is fine; INVALID_USAGE while a context uses it. */
WEFT_EXPORT weft_result_t weft_mesh_destroy(weft_mesh_t mesh);

/* ---- context ----------------------------------------------------------------------------------- */

/* When gradients of several micro-batches are reduced. */
typedef enum weft_shard_accumulation {
  WEFT_SHARD_LOCAL_THEN_REDUCE =
      0, /* add locally, reduce during the last micro-batch (PyTorch's no_sync) */
  WEFT_SHARD_REDUCE_EVERY = 1 /* reduce every micro-batch */
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
} weft_shard_config_t;

/* `mesh` is borrowed and must outlive the context. Not collective. NULL config: defaults. */
WEFT_EXPORT weft_result_t weft_shard_context_create(weft_mesh_t mesh,
                                                    const weft_shard_config_t* config,
                                                    weft_shard_context_t* context);

/* What finalize decided. Bytes are per rank. */
typedef struct weft_shard_plan {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_plan_t) */
  size_t unit_count;
  size_t param_count;
  size_t bucket_count;
  uint64_t element_count; /* trainable and frozen */
  uint64_t param_bytes;
  uint64_t grad_bytes;
  uint64_t padding_bytes; /* of param_bytes + grad_bytes */
  uint64_t traffic_bytes; /* payload reduced per step */
} weft_shard_plan_t;

/* Ends the set-up: compares names, shapes, types and order of all units and params between the
 * ranks by hash and allocates their storage, zeroed. Collective. `plan` may be NULL. Errors:
 * MISMATCH naming the first differing unit or param and the rank, BAD_STATE (a unit is not sealed,
 * or called twice), OUT_OF_MEMORY, and those of any collective. */
WEFT_EXPORT weft_result_t weft_shard_context_finalize(weft_shard_context_t context,
                                                      weft_shard_plan_t* plan);

/* Copies all parameters from mesh rank `root` to all ranks, then compares them by hash. Collective.
 * Errors: MISMATCH naming the first param that still differs, and those of any collective. */
WEFT_EXPORT weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root);

/* Compares all parameters between ranks by hash, changing nothing. Collective.
 * Errors: MISMATCH naming the first differing param and the rank that differs from rank 0. */
WEFT_EXPORT weft_result_t weft_shard_context_verify(weft_shard_context_t context);

/* Frees everything, views included. Not collective. NULL is fine. */
WEFT_EXPORT weft_result_t weft_shard_context_destroy(weft_shard_context_t context);

/* ---- units and params ---------------------------------------------------------------------------- */

/* What is cut between ranks: parameters, gradients, optimizer state. */
typedef enum weft_shard_preset {
  WEFT_SHARD_NO_SHARD = 0, /* everything replicated, gradients all-reduced: DDP */
  WEFT_SHARD_ZERO1 = 1,
  WEFT_SHARD_ZERO2 = 2,
  WEFT_SHARD_GRAD_OP = 3,
  WEFT_SHARD_FULL_SHARD = 4,
  WEFT_SHARD_HYBRID_SHARD = 5,
  WEFT_SHARD_HPZ = 6,
  WEFT_SHARD_FRACTION = 7
} weft_shard_preset_t;

/* How one unit is cut. */
typedef struct weft_shard_policy {
  size_t struct_size;
  weft_shard_preset_t preset;
} weft_shard_policy_t;

#define WEFT_SHARD_PARAM_FROZEN 1u /* no gradient */

/* How many dimensions a param may have. */
#define WEFT_SHARD_DIMS_MAX 32

/* Opens a unit. Units are declared in the order in which forward uses them. NULL policy: NO_SHARD.
 * Errors: INVALID_ARGUMENT (NULL, name empty or used twice), UNSUPPORTED (preset), BAD_STATE. */
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

/* Closes the unit. BAD_STATE if it is closed already. */
WEFT_EXPORT weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit);

/* Where a param lives, from finalize until the context is destroyed (NO_SHARD). */
typedef struct weft_shard_view {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_view_t) */
  void* data;         /* [count], 64-byte aligned; NULL for an empty param */
  void* grad;         /* [count], same dtype; NULL when frozen or empty */
  size_t count;       /* elements */
  weft_dtype_t dtype;
} weft_shard_view_t;

/* BAD_STATE before finalize. Any thread. */
WEFT_EXPORT weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view);

/* ---- step -------------------------------------------------------------------------------------- */

/* What a step is for. */
typedef enum weft_shard_mode {
  WEFT_SHARD_TRAIN = 0,
  WEFT_SHARD_EVAL = 1 /* forward only; finish is not needed */
} weft_shard_mode_t;

/* Begins a step and zeroes the gradients (TRAIN). `tag` names the kind of step when there are
 * several whose order of units differs; 0 otherwise. */
WEFT_EXPORT weft_result_t weft_shard_step_begin(weft_shard_context_t context,
                                                weft_shard_mode_t mode, uint64_t tag);
/* Begins micro-batch `index`, counted from 0; `last` = 1 for the step's last one. */
WEFT_EXPORT weft_result_t weft_shard_microbatch_begin(weft_shard_context_t context, int index,
                                                      int last);
/* The unit's parameters are valid from here. In backward this is activation recompute. */
WEFT_EXPORT weft_result_t weft_shard_pre_forward(weft_shard_unit_t unit, void* stream);
/* The unit's parameters are no longer read by forward. */
WEFT_EXPORT weft_result_t weft_shard_post_forward(weft_shard_unit_t unit, void* stream);
/* The unit's parameters are valid and its gradients may be written from here. */
WEFT_EXPORT weft_result_t weft_shard_pre_backward(weft_shard_unit_t unit, void* stream);
/* The gradient of `param` is complete for this micro-batch. grad NULL: it was written or added at
 * view.grad; otherwise it is [count] elsewhere and is added to view.grad during the call. In the
 * reducing micro-batch the bucket's reduction starts when its last param is ready. Errors:
 * BAD_STATE (twice, frozen, outside backward). Any thread. */
WEFT_EXPORT weft_result_t weft_shard_grad_ready(weft_shard_param_t param, const void* grad,
                                                void* stream);
/* The unit is done: params not yet ready have no gradient in this micro-batch. */
WEFT_EXPORT weft_result_t weft_shard_post_backward(weft_shard_unit_t unit, void* stream);
/* Ends the micro-batch: units that were not touched have no gradient in it. */
WEFT_EXPORT weft_result_t weft_shard_microbatch_end(weft_shard_context_t context, void* stream);

/* What a step amounted to. */
typedef struct weft_shard_step_result {
  size_t struct_size;      /* set by the caller: sizeof(weft_shard_step_result_t) */
  int64_t comm_ns;         /* from the first reduction's start to the last one's end */
  int64_t comm_exposed_ns; /* of which this thread waited, in finish */
  uint64_t reduced_bytes;  /* payload of this step's reductions */
  int order_changed;       /* 1: buckets became ready in another order than in the recorded step, or
                              units were used in another order than was expected */
  int replayed;            /* 1: what was gathered was prefetched and placed as planned */
  int64_t gather_exposed_ns; /* this thread waited for parameters in pre_ calls */
  uint64_t gathered_bytes;   /* whole parameters gathered in this step */
} weft_shard_step_result_t;

/* Waits for all reductions; the gradients are then the average (or sum) over all ranks, the same
 * bits on each. `result` may be NULL. Collective. */
WEFT_EXPORT weft_result_t weft_shard_finish(weft_shard_context_t context, void* stream,
                                            weft_shard_step_result_t* result);
/* Ends the step. */
WEFT_EXPORT weft_result_t weft_shard_step_end(weft_shard_context_t context);

/* This rank cannot finish the step: the others' waits return WEFT_ABORTED with rank and `reason`
 * within a second. The parameters are untouched. The group is poisoned as by weft_group_abort. Any
 * thread. */
WEFT_EXPORT weft_result_t weft_shard_abort_step(weft_shard_context_t context, const char* reason);

WEFT_END_DECLS

#endif /* WEFT_SHARD_H_ */
