/* Param groups: params of one context that its optimizer updates with other numbers, or by another formula, as torch.optim's
 * param_groups do; for muP's learning rates by width, and for AdamW beside SGD.
 *
 *   weft_shard_context_optimizer(context, NULL);                          AdamW, which is group 0
 *   weft_shard_param_group_t slow = {.struct_size = sizeof slow, .learning_rate_factor = 0.1};
 *   int group;
 *   weft_shard_param_group_add(context, &slow, &group);
 *   weft_shard_param_set_group(embedding, group);                         the others stay in group 0
 *   weft_shard_context_finalize(context, &plan);
 *   ...
 *   slow.learning_rate_factor = 0.05;                                     a schedule
 *   weft_shard_param_group_set(context, group, &slow);                    between steps
 *
 * Loss scale, norm, clipping and the learning rate of weft_shard_update_t are those of the context, for all groups. A context of
 * one group has the bits that it has without any of these calls.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; FORKED.
 *
 * Thread rule: as the calls that declare, and as the calls of a step: one thread at a time.
 */
#ifndef WEFT_SHARD_PARAM_GROUPS_H_
#define WEFT_SHARD_PARAM_GROUPS_H_

#include "weft/shard.h"
#include "weft/shard_step.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How many groups a context may have, group 0 included. */
#define WEFT_SHARD_PARAM_GROUPS_MAX 256

/* Further bits, of weft_shard_param_group_t::fields only: the number is meant as it is, also if it is 0. The others are
 * WEFT_OPTIMIZER_BETA1 to WEFT_OPTIMIZER_TRUST. */
#define WEFT_OPTIMIZER_KIND 32u
#define WEFT_OPTIMIZER_LEARNING_RATE_FACTOR 64u
#define WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR 128u
#define WEFT_OPTIMIZER_NESTEROV 256u

/* How the params of a group are updated. A number that is 0, and whose bit `fields` does not have, is inherited: in
 * weft_shard_param_group_add from weft_shard_context_optimizer's config, in weft_shard_param_group_set from what the group has. What
 * the kind does not use is not read. No number may be negative. */
typedef struct weft_shard_param_group {
  size_t struct_size;
  weft_optimizer_kind_t kind;  /* of the context's config */
  double learning_rate_factor; /* [1] x the learning_rate of weft_shard_update_t */
  double weight_decay_factor;  /* [1] x the weight_decay of the context's config */
  double beta1;
  double beta2;
  double epsilon;
  double momentum;
  double trust;
  int nesterov;
  uint32_t fields; /* WEFT_OPTIMIZER_* */
} weft_shard_param_group_t;

/* Adds a group, after weft_shard_context_optimizer and before finalize; *group receives its number, from 1. `numbers` NULL: those of
 * the context's config. All ranks add the same groups in the same order: finalize compares them. Not collective. Errors:
 * INVALID_ARGUMENT, also for one group too many; BAD_STATE without an optimizer, or after finalize. */
WEFT_EXPORT weft_result_t weft_shard_param_group_add(weft_shard_context_t context,
                                                     const weft_shard_param_group_t* numbers,
                                                     int* group);

/* Changes numbers of a group, group 0 too, from the next weft_shard_optimizer_step on; between steps or after finish, as often as
 * wanted. Group 0's weight decay is changed by its factor. The state stays, so the kind may change between ADAMW and LAMB only, and
 * SGD's momentum not from or to 0; what differs is said. All ranks must change the same: weft_shard_optimizer_step compares, and
 * names the group and the numbers that differ (MISMATCH). Not collective. Errors: INVALID_ARGUMENT, BAD_STATE before finalize and in the
 * middle of a step. After an error the group is as it was. */
WEFT_EXPORT weft_result_t weft_shard_param_group_set(weft_shard_context_t context, int group,
                                                     const weft_shard_param_group_t* numbers);

/* Writes what a group has: every number that its kind uses, with its bit in `fields`, so that weft_shard_param_group_set takes it as
 * it is. The others are 0. From weft_shard_context_optimizer on. BAD_STATE without an optimizer. */
WEFT_EXPORT weft_result_t weft_shard_param_group_get(weft_shard_context_t context, int group,
                                                     weft_shard_param_group_t* numbers);

/* Puts a param into a group, before finalize; it is in group 0 otherwise. For a tied param this is the group of the param that
 * it shares. A frozen one is not updated, whatever its group. weft_shard_param_info shows the group. Not collective. Errors:
 * INVALID_ARGUMENT for a group that was not added, BAD_STATE after finalize. */
WEFT_EXPORT weft_result_t weft_shard_param_set_group(weft_shard_param_t param, int group);

WEFT_END_DECLS

#endif /* WEFT_SHARD_PARAM_GROUPS_H_ */
