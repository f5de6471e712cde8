/* What a shard context was told of its units and params, asked of their handles: names, shapes, types, policies, and how
 * to find a handle by index or by name.
 *
 *   size_t count = 0;
 *   weft_shard_context_unit_count(context, &count);
 *   for (size_t i = 0; i < count; ++i) {
 *     weft_shard_unit_t unit;
 *     weft_shard_unit_info_t info = {.struct_size = sizeof info};
 *     weft_shard_context_unit_at(context, i, &unit);
 *     weft_shard_unit_info(unit, &info);                 // info.name, info.param_count, info.preset
 *   }
 *   weft_shard_context_param_by_name(context, "blocks.3.weight", &param);
 *
 * A checkpoint, a printer or a binding that is handed a context needs no list of its own. All of it works before finalize,
 * on a dry mesh, in the middle of a step and after a failure. Not collective; nothing is sent or waited for. Strings and handles
 * that these calls return stay valid until the context is destroyed.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, an index out of range, a name that nothing has); FORKED.
 *
 * Thread rule: from finalize on any thread. Before it, as the calls that declare: one thread at a time.
 */
#ifndef WEFT_SHARD_INFO_H_
#define WEFT_SHARD_INFO_H_

#include "weft/shard.h"
#include "weft/shard_policy.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* One param, as it was declared. */
typedef struct weft_shard_param_info {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_param_info_t) */
  const char* name;
  weft_shard_unit_t unit; /* that uses it under this name */
  const char* unit_name;
  /* The param whose storage and gradient it shares, if the handle is that of weft_shard_unit_tie_param; else NULL. Shape, type and
   * flags are those of that param. */
  weft_shard_param_t tied_to;
  size_t count;                       /* elements, without padding */
  int64_t shape[WEFT_SHARD_DIMS_MAX]; /* [ndim], 0 from there on */
  int ndim;
  weft_dtype_t dtype;
  uint32_t flags; /* WEFT_SHARD_PARAM_* */
  int index;      /* among the params of its unit: weft_shard_unit_param_at finds it there */
  int group;      /* of the optimizer's param groups, see shard_param_groups.h */
} weft_shard_param_info_t;

/* Writes what was declared of a param. */
WEFT_EXPORT weft_result_t weft_shard_param_info(weft_shard_param_t param,
                                                weft_shard_param_info_t* info);

/* One unit: its policy as it was declared, and as it is carried out. */
typedef struct weft_shard_unit_info {
  size_t struct_size; /* set by the caller: sizeof(weft_shard_unit_info_t) */
  const char* name;
  size_t index;       /* in the order of declaration: weft_shard_context_unit_at finds it there */
  size_t param_count; /* tied params included */
  weft_shard_preset_t preset;
  weft_shard_place_t params; /* as the preset and the policy say together, as the next three */
  weft_shard_place_t between;
  weft_shard_place_t gradients;
  weft_shard_place_t optimizer;
  weft_shard_cut_t cut;
  int64_t cut_rows; /* CUT_BLOCK: rows that stay together, 1 or more; else 0 */
  int float32_gradients;
  weft_shard_wire_t wire;
  int sealed; /* 1: it takes no more params */
  /* 1: weft_shard_param_view has addresses now: from finalize on if the unit's params are not sharded, else between its pre_
   * and post_ calls. */
  int unsharded;
  /* What the unit's params take while they are unsharded, padding included: what a destination of weft_shard_unshard_start must
   * have. 0 before finalize, and where params are not sharded. */
  size_t unsharded_bytes;
} weft_shard_unit_info_t;

/* Writes what was declared of a unit, and whether its params are unsharded just now. */
WEFT_EXPORT weft_result_t weft_shard_unit_info(weft_shard_unit_t unit,
                                               weft_shard_unit_info_t* info);

/* How many units have been declared. */
WEFT_EXPORT weft_result_t weft_shard_context_unit_count(weft_shard_context_t context,
                                                        size_t* count);

/* The unit with this index, from 0, in the order of declaration. */
WEFT_EXPORT weft_result_t weft_shard_context_unit_at(weft_shard_context_t context, size_t index,
                                                     weft_shard_unit_t* unit);

/* The unit with this name. */
WEFT_EXPORT weft_result_t weft_shard_context_unit_by_name(weft_shard_context_t context,
                                                          const char* name,
                                                          weft_shard_unit_t* unit);

/* The param of the unit with this index, from 0, in the order of declaration, tied ones included. */
WEFT_EXPORT weft_result_t weft_shard_unit_param_at(weft_shard_unit_t unit, size_t index,
                                                   weft_shard_param_t* param);

/* The param with this name, of any unit; a tied one has a name of its own. */
WEFT_EXPORT weft_result_t weft_shard_context_param_by_name(weft_shard_context_t context,
                                                           const char* name,
                                                           weft_shard_param_t* param);

WEFT_END_DECLS

#endif /* WEFT_SHARD_INFO_H_ */
