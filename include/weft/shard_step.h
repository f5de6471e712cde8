/* The steps of a shard context: what is called around forward and backward, and the update. See shard.h for
 * the order of calls.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; those that wait for
 * parameters or gradients also have those of collective.h.
 *
 * Thread rule: weft_shard_grad_ready and weft_shard_abort_step from any thread; the other calls of one context
 * from one thread at a time. `stream` is NULL for host memory.
 */
#ifndef WEFT_SHARD_STEP_H_
#define WEFT_SHARD_STEP_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* ---- step -------------------------------------------------------------------------------------- */

/* What a step is for. */
typedef enum weft_shard_mode {
  WEFT_SHARD_TRAIN = 0,
  WEFT_SHARD_EVAL = 1 /* forward only; finish is not needed */
} weft_shard_mode_t;

/* What begins; all 0 is a step of training. */
typedef struct weft_shard_step {
  size_t struct_size;
  weft_shard_mode_t mode;
  uint64_t tag; /* names the kind of step when there are several whose order of units differs */
  void* stream;
} weft_shard_step_t;

/* Begins a step and zeroes the gradients (TRAIN). NULL step: all 0. */
WEFT_EXPORT weft_result_t weft_shard_step_begin(weft_shard_context_t context,
                                                const weft_shard_step_t* step);

/* Call it in place of all micro-batches of a step if this rank has no data while others do, or in place of the micro-batches that
 * follow if its data ends in the middle of the step. It makes the calls of the last step of this kind with zero gradients, so that the
 * others need not wait. *active_ranks, which may be NULL, receives the number of ranks with data, one whose data ends in the middle
 * included. If it is not 0, the step goes on as theirs: finish, optimizer_step, step_end. If it is 0, which all ranks get in the same
 * step, the step has ended. (PyTorch's DDP calls this join.)
 * `uneven` must be set in the config, which makes microbatch_begin(0) compare mode and tag between ranks. Collective.
 * Where anything is gathered, the others' step must have the same number of micro-batches and the same order as that last step; give
 * other kinds of step a tag. If you use weft_shard_check_samples, call it before microbatch_begin(0), and before weft_shard_join
 * with 0 bytes. Errors: MISMATCH naming the rank that began another kind of step, or that gathers other units; BAD_STATE, on this rank
 * alone, if it has made as many micro-batches as the last step of this kind had, so that it is not known what follows: it then
 * makes the others itself, with zero gradients. Before there was a step, `microbatches` of the config counts. */
WEFT_EXPORT weft_result_t weft_shard_join(weft_shard_context_t context, void* stream,
                                          int* active_ranks);

/* Which micro-batch of a step begins. */
typedef struct weft_shard_microbatch {
  size_t struct_size;
  int index; /* from 0 */
  int last;  /* 1: it is the step's last one */
  void* stream;
} weft_shard_microbatch_t;

/* Begins a micro-batch. NULL: the only one of its step (index 0, last 1). Collective for index 0 if the config says `uneven`. */
WEFT_EXPORT weft_result_t weft_shard_microbatch_begin(weft_shard_context_t context,
                                                      const weft_shard_microbatch_t* microbatch);
/* The unit's parameters are valid from here. In backward this is activation recompute. */
WEFT_EXPORT weft_result_t weft_shard_pre_forward(weft_shard_unit_t unit, void* stream);
/* The unit's parameters are no longer read by forward. */
WEFT_EXPORT weft_result_t weft_shard_post_forward(weft_shard_unit_t unit, void* stream);
/* The unit's parameters are valid and its gradients may be written from here. */
WEFT_EXPORT weft_result_t weft_shard_pre_backward(weft_shard_unit_t unit, void* stream);
/* The gradient of `param` is complete for this micro-batch. grad NULL: it was written or added at view.grad; otherwise it is
 * [count] of grad_dtype elsewhere and is added to view.grad, or copied where that is unset, during the call. In the reducing
 * micro-batch the bucket's reduction starts when its last param is ready. Errors: BAD_STATE (twice, frozen, outside backward). Any
 * thread. */
WEFT_EXPORT weft_result_t weft_shard_grad_ready(weft_shard_param_t param, const void* grad,
                                                void* stream);
/* The unit is done: params not yet ready have no gradient in this micro-batch. */
WEFT_EXPORT weft_result_t weft_shard_post_backward(weft_shard_unit_t unit, void* stream);

/* How weft_shard_unshard_start unshards; NULL: in the pool. */
typedef struct weft_shard_unshard {
  size_t struct_size;
  /* Where the unit's params are to be, 64-byte aligned; NULL: in the pool. The memory is weft's until weft_shard_reshard, or
   * until the context is destroyed after a failure, and is left as it is then, also with `poison`. A tied param lies where the
   * unit is that has it. */
  void* destination;
  size_t bytes; /* of it: at least unsharded_bytes of weft_shard_unit_info_t */
  void* stream; /* NULL for host memory */
} weft_shard_unshard_t;

/* The calls above in two forms, for programs that order communication themselves (compiled or functional autograd,
 * pipeline schedules). All ranks make these calls in one order, as pre_forward.
 *
 * Begins to gather the unit's parameters, at any time of a micro-batch and beside the unit's other calls; waits only for room
 * in the pool. `options` may be NULL. With a destination weft_shard_param_view has addresses there from unshard_wait on until
 * reshard; params that are unsharded already, or on their way, are copied to it. Each rank may pass one or not. Errors: BAD_STATE
 * if the unit's unshard_start before has had no reshard, or as stable_views says; INVALID_ARGUMENT (a destination that is NULL with bytes, too small or
 * misaligned, or of a unit whose params are not sharded: nothing is gathered for it). */
WEFT_EXPORT weft_result_t weft_shard_unshard_start(weft_shard_unit_t unit,
                                                   const weft_shard_unshard_t* options);
/* Waits for the gather: the unit is unsharded from here until weft_shard_reshard. BAD_STATE if none was started. */
WEFT_EXPORT weft_result_t weft_shard_unshard_wait(weft_shard_unit_t unit, void* stream);
/* Ends the use that unshard_start began. BAD_STATE without unshard_wait before. A micro-batch cannot end before this call. */
WEFT_EXPORT weft_result_t weft_shard_reshard(weft_shard_unit_t unit, void* stream);
/* Waits for the reductions of one unit, which grad_ready and post_backward start, before finish and in a micro-batch that reduces.
 * The gradient of weft_shard_param_part is reduced from here: that of the step with LOCAL_THEN_REDUCE, else that of this
 * micro-batch. BAD_STATE before the unit's last post_backward; while gradients of a unit that is reduced earlier are not
 * complete; in a micro-batch that does not reduce to the end; and without overlap. */
WEFT_EXPORT weft_result_t weft_shard_reduce_wait(weft_shard_unit_t unit, void* stream);

/* Ends the micro-batch: units that were not touched have no gradient in it. */
WEFT_EXPORT weft_result_t weft_shard_microbatch_end(weft_shard_context_t context, void* stream);

/* Figures of a step. */
typedef struct weft_shard_step_result {
  size_t struct_size;      /* set by the caller: sizeof(weft_shard_step_result_t) */
  int64_t comm_ns;         /* from the first reduction's start to the last one's end */
  int64_t comm_exposed_ns; /* the part of it that this thread waited, in finish and reduce_wait */
  uint64_t reduced_bytes;  /* payload of this step's reductions */
  int order_changed;       /* 1: buckets became ready in another order than in the recorded step, or
                              units were used in an unexpected order */
  int replayed;            /* 1: what was gathered was prefetched and placed as planned */
  int64_t gather_exposed_ns; /* how long this thread waited for parameters in pre_ calls */
  /* Parameters gathered in this step, and after the update before it. */
  uint64_t gathered_bytes;
  uint64_t pool_bytes; /* of the pool now: as in weft_shard_plan_t, or more if needed */
  int active_ranks; /* that had data for the step, see weft_shard_join; all if the config does not say `uneven` */
} weft_shard_step_result_t;

/* Waits for all reductions; the gradients, or this rank's shards of them, are then the average (or sum)
 * over all ranks. Where anything is gathered it also compares the order of calls between ranks. So it is optional after
 * an EVAL step, but lets the next one prefetch. `result` may be NULL. Collective. */
WEFT_EXPORT weft_result_t weft_shard_finish(weft_shard_context_t context, void* stream,
                                            weft_shard_step_result_t* result);

/* ---- optimizer --------------------------------------------------------------------------------- */

/* Which formula; docs/sharding.md has them. */
typedef enum weft_optimizer_kind {
  WEFT_OPTIMIZER_ADAMW = 0,
  WEFT_OPTIMIZER_SGD = 1,
  WEFT_OPTIMIZER_LION = 2,
  WEFT_OPTIMIZER_LAMB = 3,
  WEFT_OPTIMIZER_LARS = 4,
  /* The caller's own: the context keeps no state and updates nothing. weft_shard_optimizer_step finds the norm and whether all
   * gradients are finite, moves the loss scale, says `skipped`, and if it is 0 multiplies this rank's reduced gradients in place by
   * gradient_factor x clip / loss_scale (in float64, rounded to float32 and then to grad_dtype: exact for powers of two, but
   * where it underflows). Then, before step_end, the caller updates the data of its parts (weft_shard_param_part) from their grad,
   * and calls weft_shard_params_updated. learning_rate is not used, and float64 params are possible. */
  WEFT_OPTIMIZER_OWN = 5,
  /* For matrices: params of two dimensions, each of which lies whole on one rank (no sharding of the optimizer, or a policy with
   * WEFT_SHARD_CUT_TENSOR); finalize refuses others with UNSUPPORTED. Put the rest into a group of another kind. Momentum, then five
   * Newton-Schulz iterations towards the nearest matrix of orthonormal rows or columns (K. Jordan et al.: Muon, 2024). */
  WEFT_OPTIMIZER_MUON = 6
} weft_optimizer_kind_t;

/* c [m, n] = a [m, k] b [k, n], float32, all by rows without gaps; c overlaps neither a nor b, which may be the same. Called by the thread
 * that calls weft_shard_optimizer_step. */
typedef void (*weft_matmul_t)(const float* a, const float* b, float* c, size_t m, size_t n,
                              size_t k, void* user);

/* What optimizer_step does if gradients are infinite or NaN. No rank updates anything then, whatever the choice. A dynamic loss
 * scale causes some overflows on purpose: only those at its smallest value, 1, count. */
typedef enum weft_nonfinite {
  /* Rank 0 logs the first such step in a row: step, param, element, and the rank that has it. */
  WEFT_NONFINITE_WARN = 0,
  WEFT_NONFINITE_SKIP =
      1, /* logs nothing: weft_shard_update_result_t has `skipped` and `nonfinite` */
  /* As WARN; and the nonfinite_steps-th such step in a row fails with CORRUPT and that message, on all ranks. */
  WEFT_NONFINITE_FAIL = 2
} weft_nonfinite_t;

/* Bits of weft_optimizer_config_t::fields: the number is meant as it is, also if it is 0. */
#define WEFT_OPTIMIZER_BETA1 1u
#define WEFT_OPTIMIZER_BETA2 2u
#define WEFT_OPTIMIZER_EPSILON 4u
#define WEFT_OPTIMIZER_MOMENTUM 8u
#define WEFT_OPTIMIZER_TRUST 16u

/* The optimizer of a context; formulas as in torch.optim and the papers, docs/sharding.md. 0 means the
 * default in brackets, unless `fields` has the number's bit. No number may be negative. */
typedef struct weft_optimizer_config {
  size_t struct_size;
  weft_optimizer_kind_t kind;
  double beta1;           /* ADAMW, LION, LAMB [0.9] */
  double beta2;           /* ADAMW, LAMB [0.999], LION [0.99] */
  double epsilon;         /* ADAMW [1e-8], LAMB [1e-6], which needs one above 0 */
  double weight_decay;    /* [0] decoupled, but for SGD */
  double momentum;        /* SGD [0], LARS [0.9], MUON [0.95] */
  double trust;           /* LARS: eta [0.001] */
  int nesterov;           /* SGD, MUON */
  double loss_scale;      /* [1] the loss is multiplied by it: static; the initial one if dynamic */
  int dynamic_loss_scale; /* 1: loss_scale [65536] doubles after loss_scale_growth_steps good
                                     steps and is halved by overflows, as Megatron does */
  int64_t loss_scale_growth_steps; /* [1000] */
  int64_t loss_scale_hysteresis;   /* [2] overflows before it is halved */
  int threads; /* [1] of this rank that make norms and updates, the calling one included, at most 256; the
                  bits do not depend on it, and ranks may differ */
  int64_t nonfinite_steps; /* [1] in a row, of WEFT_NONFINITE_FAIL only */
  weft_nonfinite_t nonfinite;
  uint32_t fields; /* WEFT_OPTIMIZER_* */
  /* MUON: what multiplies its matrices, a BLAS say; on every rank or on none. Where the optimizer is replicated it must give the same
   * bits on every rank: weft_shard_context_verify tells if it does not. NULL: weft's own, which is plain, and has the same bits on
   * every rank, preset and number of threads. */
  weft_matmul_t product;
  void* product_user; /* passed to product */
  /* Called once with product_user by weft_shard_context_destroy, after the last product; not if weft_shard_context_optimizer
   * fails. NULL: nothing is called. */
  void (*release_user)(void* user);
} weft_optimizer_config_t;

/* Gives the context an optimizer, before finalize, which then counts and allocates its state: two moments in
 * float32 (one for SGD with momentum, LION, LARS and MUON), room for MUON's largest matrix, and a float32 main copy of params of 16 bits, each
 * of this rank's parts only (nothing for OWN), and starts `threads` - 1 threads, which the context's destruction joins. float64
 * params are UNSUPPORTED in finalize, but for OWN. BAD_STATE if there is one. */
WEFT_EXPORT weft_result_t weft_shard_context_optimizer(weft_shard_context_t context,
                                                       const weft_optimizer_config_t* config);

/* The number to multiply the loss of the next step by. BAD_STATE before finalize or without an
 * optimizer. */
WEFT_EXPORT weft_result_t weft_shard_loss_scale(weft_shard_context_t context, double* scale);

/* How many words an exact sum has. */
#define WEFT_SHARD_NORM_WORDS 69

/* The global norm of a step's gradients: the same bits on every rank, whatever the preset. */
typedef struct weft_shard_norm {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_norm_t) */
  double norm;        /* without loss scale, before clipping */
  int64_t nonfinite;  /* gradient elements that are infinite or NaN, on all ranks */
  double loss_scale;  /* that the gradients have; 1 without an optimizer of weft's */
  /* The exact sum of squares, with loss scale; in words that are added one by one, in any order. */
  int64_t squares[WEFT_SHARD_NORM_WORDS];
} weft_shard_norm_t;

/* One update: the same on all ranks, but for `requests`. */
typedef struct weft_shard_update {
  size_t struct_size;
  double learning_rate; /* 0 or more */
  double norm_max;      /* gradients are clipped to this global norm; 0: no clipping */
  /* The norm that clips, and tells whether all gradients are finite: of weft_shard_gradient_norm in this step, or a sum of
   * several contexts' or ranks' (shard_norm.h). NULL: this context's, which the call finds. */
  const weft_shard_norm_t* norm;
  /* What gradients are multiplied by before they are clipped, say 1 / tokens; grad_norm is with it. 0: 1 */
  double gradient_factor;
  void* stream;
  /* Bits with a meaning of the program's, "stop after this step" say: each rank passes its own and gets those of all ranks. */
  uint64_t requests;
} weft_shard_update_t;

/* Figures of an update. */
typedef struct weft_shard_update_result {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_update_result_t) */
  double grad_norm;   /* global, without loss scale, before clipping: the same bits on every rank */
  double loss_scale;  /* for the next step */
  int64_t nonfinite;  /* gradient elements that are infinite or NaN, on all ranks */
  int64_t update_count; /* updates made so far */
  int skipped;          /* 1: some gradient was not finite: nothing was updated, on any rank */
  uint64_t requests;    /* that any rank of the mesh has passed, also if the step was skipped */
} weft_shard_update_result_t;

/* Updates the params from the reduced gradients, between finish and step_end, once: global norm (every element
 * once, an exact sum, so it does not depend on the preset), unscaling, clipping, update and rounding in
 * one pass. Where params are not sharded, the updated shards are gathered afterwards; pre_forward waits.
 * `result` may be NULL. Collective. Errors: INVALID_ARGUMENT (a number that is negative, infinite or NaN) and BAD_STATE (without an
 * optimizer, not after finish of a TRAIN step, a second time), and nothing was sent; MISMATCH if the update is not the same on all ranks,
 * naming both; CORRUPT as WEFT_NONFINITE_FAIL says. After these two nothing was updated, on any rank, and the context can go on with
 * step_end; `requests` are lost then, so pass them again. */
WEFT_EXPORT weft_result_t weft_shard_optimizer_step(weft_shard_context_t context,
                                                    const weft_shard_update_t* update,
                                                    weft_shard_update_result_t* result);

/* In place of weft_shard_optimizer_step: gives this step's gradients up, and nothing is updated, on any rank. The loss scale stays, and
 * gradients that are not finite do not count. Collective. Errors as weft_shard_optimizer_step; MISMATCH if other ranks update. */
WEFT_EXPORT weft_result_t weft_shard_drop_gradients(weft_shard_context_t context, void* stream);

/* Ends the step. BAD_STATE, and the step goes on, after finish of a TRAIN step of a context with an optimizer of any kind: before
 * weft_shard_optimizer_step or weft_shard_drop_gradients, and before weft_shard_params_updated if the caller was left params of kind OWN.
 * With verify_steps in the config it is collective every so many training steps and may return MISMATCH as weft_shard_context_verify
 * does; the step has ended all the same. */
WEFT_EXPORT weft_result_t weft_shard_step_end(weft_shard_context_t context);

/* This rank cannot finish the step: the others' waits return WEFT_ABORTED with rank and `reason` within a second. The parameters are
 * untouched. The group is poisoned as by weft_group_abort, and with it those of the mesh's axes, as by any failure. Any thread. */
WEFT_EXPORT weft_result_t weft_shard_abort_step(weft_shard_context_t context, const char* reason);

WEFT_END_DECLS

#include "weft/shard_norm.h"
#include "weft/shard_param_groups.h"

#endif /* WEFT_SHARD_STEP_H_ */
