/* How the units of a shard context are sharded: presets, or a placement of your own, and the types in which
 * gradients are kept and reduced. See shard.h for the calls; docs/sharding.md compares the presets.
 *
 *   weft_shard_policy_t policy = {sizeof(policy)};
 *   policy.preset = WEFT_SHARD_FULL_SHARD;
 *   policy.float32_gradients = 1;
 *   weft_shard_unit_begin(context, "block0", &policy, &unit);
 *
 * Errors: weft_shard_unit_begin returns INVALID_ARGUMENT for values that contradict each other.
 *
 * Thread rule: any thread.
 */
#ifndef WEFT_SHARD_POLICY_H_
#define WEFT_SHARD_POLICY_H_

#include <stddef.h>
#include <stdint.h>

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What is sharded: parameters, gradients, optimizer state. */
typedef enum weft_shard_preset {
  /* Nothing sharded, gradients all-reduced: DDP. */
  WEFT_SHARD_NO_SHARD = 0,
  /* Optimizer state sharded. */
  WEFT_SHARD_ZERO1 = 1,
  /* Optimizer state and gradients sharded. */
  WEFT_SHARD_ZERO2 = 2,
  /* All three sharded; parameters stay unsharded from forward to backward (PyTorch's SHARD_GRAD_OP). */
  WEFT_SHARD_GRAD_OP = 3,
  /* All three sharded, parameters unsharded only while used: ZeRO-3, FSDP. */
  WEFT_SHARD_FULL_SHARD = 4,
  /* FULL_SHARD along the last axis of the mesh (2^k ranks), replicated along the others; gradients
   * are added across replicas. */
  WEFT_SHARD_HYBRID_SHARD = 5,
  /* FULL_SHARD, but between forward and backward the ranks of the last axis of the mesh share a copy, so that
   * backward gathers along that axis only (ZeRO++). */
  WEFT_SHARD_HPZ = 6,
  /* FULL_SHARD, but as many units as memory_budget_bytes allows stay unsharded between two uses, those
   * that are used again soonest first. */
  WEFT_SHARD_FRACTION = 7
} weft_shard_preset_t;

/* The preset's name on command lines: "ddp", "zero1", "zero2", "shard-grad-op", "full-shard", "hybrid", "hpz" or "fraction";
 * "unknown" for a number that is no preset. */
WEFT_EXPORT const char* weft_shard_preset_name(weft_shard_preset_t preset);

/* Sets *preset to the one that has this name; "zero3" is FULL_SHARD too. Errors: INVALID_ARGUMENT (NULL, no such name). */
WEFT_EXPORT weft_result_t weft_shard_preset_by_name(const char* name, weft_shard_preset_t* preset);

/* Where a unit may be split into shards. */
typedef enum weft_shard_cut {
  WEFT_SHARD_CUT_FLAT = 0,  /* at any multiple of 128 elements: equal parts */
  WEFT_SHARD_CUT_BLOCK = 1, /* within a param only between blocks of cut_rows rows */
  WEFT_SHARD_CUT_TENSOR = 2 /* between params */
} weft_shard_cut_t;

/* The type in which float32 gradients are reduced. */
typedef enum weft_shard_wire {
  WEFT_SHARD_WIRE_GRADIENTS = 0, /* in float32 */
  /* Rounded to this type before and after the reduction, which adds in float32: half the traffic. Values too large for
   * float16 become infinite. Replicas still send float32. */
  WEFT_SHARD_WIRE_BFLOAT16 = 1,
  WEFT_SHARD_WIRE_FLOAT16 = 2
} weft_shard_wire_t;

/* Where params, gradients or optimizer state of a unit are, if not as the preset says. */
typedef enum weft_shard_place {
  WEFT_SHARD_PLACE_BY_PRESET = 0,
  WEFT_SHARD_PLACE_WHOLE = 1,   /* on every rank */
  WEFT_SHARD_PLACE_SHARDED = 2, /* sharded over all ranks */
  WEFT_SHARD_PLACE_SHARDED_INNER =
      3 /* sharded along the last axis of the mesh, replicated along the others */
} weft_shard_place_t;

/* How one unit is sharded. Sharded params need sharded gradients, and sharded gradients a sharded optimizer; those of
 * the three that are sharded are sharded in the same way. Between forward and backward params may be
 * unsharded, sharded as between steps, or sharded along the last axis. INVALID_ARGUMENT names two values that contradict each other. */
typedef struct weft_shard_policy {
  size_t struct_size;
  weft_shard_preset_t preset;
  weft_shard_cut_t cut;
  int64_t cut_rows; /* CUT_BLOCK: rows that stay together; 0: 1 */
  int float32_gradients; /* 1: gradients of 16-bit params are float32 where they are accumulated, reduced and
                            read by the optimizer */
  weft_shard_wire_t wire;
  weft_shard_place_t params; /* these four in place of what the preset says */
  weft_shard_place_t between;
  weft_shard_place_t gradients;
  weft_shard_place_t optimizer;
} weft_shard_policy_t;

WEFT_END_DECLS

#endif /* WEFT_SHARD_POLICY_H_ */
