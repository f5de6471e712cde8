/* The state of a shard context, for checkpoints: where this rank keeps the values, main copies and moments of each param, the
 * numbers that belong to no param, and how to put all of it back.
 *
 * Save, on every rank, between steps:
 *
 *   for each param and kind:
 *     weft_shard_state_part_t part = {.struct_size = sizeof part};
 *     weft_shard_state_part(param, kind, &part);
 *     write elements [part.write_begin, part.write_begin + part.write_count) of the param, which lie at
 *       (char*)part.data + (part.write_begin - part.begin) * size_of(part.dtype),
 *       or, if they are in a file (part.offloaded), are given by weft_shard_state_read
 *   weft_shard_state_scalars_get(context, &scalars), and write them once
 *
 * What all ranks write covers every element of every state exactly once, whatever the preset and the number of ranks. Elements are
 * counted within the param, so a context with another preset, another number of ranks or other units finds its own by intersecting
 * intervals. Restore, on every rank, after finalize or between steps:
 *
 *   weft_shard_state_scalars_set(context, &scalars);
 *   for each param and kind, values first:
 *     weft_shard_state_part(param, kind, &part);
 *     read elements [part.begin, part.begin + part.count) of the param to part.data, or to weft_shard_state_write
 *   weft_shard_state_written(context, WEFT_SHARD_STATE_ALL, NULL);
 *
 * With the same number of ranks, training then goes on with the bits that it would have had. docs/sharding.md has both as a program.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range); BAD_STATE before finalize and in the middle of a
 * step; INVALID_USAGE on a dry mesh; FORKED. A call that fails changes nothing.
 *
 * After a failure weft_shard_state_part and weft_shard_state_scalars_get still work, in whatever step it came, so that a program
 * that ends can save what it has: values, main copies and moments are those after the last update (if a load or a broadcast
 * failed, values are what it made of them). Values that are not sharded while their optimizer is (ZERO1, ZERO2) are then told of in
 * this rank's own part, since those of others may not have come. Ranks that an update failed on may be one update apart: compare
 * their update_count before you use such a checkpoint. BAD_STATE if the failure left an update half done on this rank.
 *
 * Thread rule: as shard.h, one thread at a time.
 */
#ifndef WEFT_SHARD_STATE_H_
#define WEFT_SHARD_STATE_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What is kept of a param. */
typedef enum weft_shard_state_kind {
  WEFT_SHARD_STATE_VALUE = 0, /* the param itself, of its own type */
  WEFT_SHARD_STATE_MAIN = 1,  /* the float32 main copy of a trainable param of 16 bits */
  /* The optimizer's first moment, float32: of ADAMW and LAMB m, of LION m, of SGD with momentum, LARS and MUON the momentum. */
  WEFT_SHARD_STATE_MOMENT1 = 2,
  WEFT_SHARD_STATE_MOMENT2 = 3 /* its second moment, float32: of ADAMW and LAMB v */
} weft_shard_state_kind_t;

/* How many kinds there are. */
#define WEFT_SHARD_STATE_KINDS 4

/* Kinds as bits. */
#define WEFT_SHARD_STATE_VALUES 1u
#define WEFT_SHARD_STATE_MAINS 2u
#define WEFT_SHARD_STATE_MOMENTS 12u
#define WEFT_SHARD_STATE_ALL 15u

/* What this rank keeps of one state of a param. */
typedef struct weft_shard_state_part {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_state_part_t) */
  void* data;   /* [count] of dtype; NULL if there is nothing, or it is not in memory (offloaded) */
  size_t begin; /* elements [begin, begin + count) of the param */
  size_t count; /* 0 if this rank keeps none of it */
  /* Elements [write_begin, write_begin + write_count) of the param, all within this part: what this rank is to write to a
   * checkpoint, so that no element is written twice. The same for all kinds of a param that there are. */
  size_t write_begin;
  size_t write_count;
  weft_dtype_t dtype;
  int replica;  /* which of the ranks that keep this interval this one is, from 0 */
  int replicas; /* how many these are; 0 if no rank keeps such a state of the param */
  /* 1: it is in a file (shard_offload.h), and data is NULL: use weft_shard_state_read and weft_shard_state_write */
  int offloaded;
} weft_shard_state_part_t;

/* Where this rank keeps a state of `param`; of a tied param that of the param that it is. A state that does not exist is no error:
 * its count and replicas are 0 (no optimizer, an optimizer with fewer moments, a main copy of a float32 param, a frozen or
 * an empty param). Values, and optimizer state, may rest differently, so ask for each kind.
 * The address is valid until the context is destroyed, and may be written between steps and after finish; then call
 * weft_shard_state_written. The call waits until updated values have been gathered. A main copy that is out of date, since
 * values were loaded or have never been updated, is made from the values before the call returns; ask for it after the values are
 * written. Values are BAD_STATE between optimizer_step and weft_shard_params_updated in a context with params of kind
 * WEFT_OPTIMIZER_OWN. Not collective. */
WEFT_EXPORT weft_result_t weft_shard_state_part(weft_shard_param_t param,
                                                weft_shard_state_kind_t kind,
                                                weft_shard_state_part_t* part);

/* Reads elements [begin, begin + count) of `param`, which must be in the part of this rank that weft_shard_state_part tells, to `to`
 * [count] of its dtype, wherever the state is. INVALID_ARGUMENT if they are not; else as weft_shard_state_part, and with offloaded
 * state SYSTEM_ERROR or TIMEOUT of its disk. Not collective. */
WEFT_EXPORT weft_result_t weft_shard_state_read(weft_shard_param_t param,
                                                weft_shard_state_kind_t kind, size_t begin,
                                                size_t count, void* to);

/* Writes them from `from`, between steps or after finish; then call weft_shard_state_written. The elements of a main copy that is out of
 * date that are not written are made from the values. Waits for a checkpoint that is being saved in the background to have read
 * the state. Errors as weft_shard_state_read. Not collective. */
WEFT_EXPORT weft_result_t weft_shard_state_write(weft_shard_param_t param,
                                                 weft_shard_state_kind_t kind, size_t begin,
                                                 size_t count, const void* from);

/* The numbers of a context that belong to no param. Without an optimizer loss_scale is 1 and the others from update_count on are
 * 0. */
typedef struct weft_shard_state_scalars {
  size_t struct_size;        /* set by the caller: sizeof(weft_shard_state_scalars_t) */
  int64_t steps_begun;       /* of any mode: the number of a step in messages. Ranks may differ */
  int64_t train_steps_begun; /* of WEFT_SHARD_TRAIN, the same on all ranks */
  int64_t update_count;      /* updates made; ADAMW and LAMB correct their bias by it */
  double loss_scale;         /* that the next step's loss is to be multiplied by */
  int64_t loss_scale_good_steps;     /* since it last changed or overflowed */
  int64_t loss_scale_overflows_left; /* until one halves it */
  int64_t
      nonfinite_steps; /* so many steps in a row, up to now, had gradients that were not finite */
} weft_shard_state_scalars_t;

/* Writes them, between steps or after finish. A step_begin that fails begins no step and counts none, so after a failure
 * steps_begun and train_steps_begun may be one less on ranks that had not begun the step. Not collective. */
WEFT_EXPORT weft_result_t weft_shard_state_scalars_get(weft_shard_context_t context,
                                                       weft_shard_state_scalars_t* scalars);

/* Goes on from these numbers; all are meant as they are, also if they are 0. Counts are at most 2^53. Not collective, but all ranks must
 * set the same, but for steps_begun: weft_shard_state_written compares them, and every weft_shard_optimizer_step those from
 * update_count on; they answer MISMATCH, with nothing changed, naming the rank that has others. A train_steps_begun that differs and
 * is not compared by weft_shard_state_written ends the next step of training with MISMATCH. A static loss scale stays static, with the new value; a dynamic one must be within its
 * bounds. BAD_STATE between finish and step_end of a training step too, whose gradients have the loss scale that there is. */
WEFT_EXPORT weft_result_t weft_shard_state_scalars_set(weft_shard_context_t context,
                                                       const weft_shard_state_scalars_t* scalars);

/* Says that the caller has written its parts of all params, of these `kinds` (WEFT_SHARD_STATE_* bits), between steps or after
 * finish. It takes the place of weft_shard_params_updated:
 * with VALUES, params that are not sharded while their optimizer is (ZERO1, ZERO2) are gathered from the parts of
 * weft_shard_param_part, asynchronously; of these params it is enough to write that part. Others that are not sharded each rank
 * writes whole, and all the same: weft_shard_context_verify tells if they did not.
 * With MAINS, main copies count as they were written. Without it those of all params are made from the values, if VALUES is given:
 * leave it out for a checkpoint that has none.
 * In a context with params of kind WEFT_OPTIMIZER_OWN it is BAD_STATE between optimizer_step and step_end.
 * Collective. Errors: MISMATCH if ranks pass different kinds or have different scalars, naming both; then nothing was
 * announced, and the call can be made again. */
WEFT_EXPORT weft_result_t weft_shard_state_written(weft_shard_context_t context, uint32_t kinds,
                                                   void* stream);

WEFT_END_DECLS

#endif /* WEFT_SHARD_STATE_H_ */
