/* Units made from a list of params: by the prefixes of their names, by size, or both.
 *
 *   enum { kSize = sizeof(weft_shard_param_config_t) };
 *   weft_shard_param_config_t params[] = {
 *       {kSize, "embed.weight", embed, 2, WEFT_FLOAT32, 0},
 *       {kSize, "blocks.0.norm", norm, 1, WEFT_FLOAT32, WEFT_SHARD_PARAM_NO_DECAY}, ...};   // as forward uses them
 *   weft_shard_grouping_t grouping = {sizeof grouping, "blocks.*", 0};
 *   size_t unit_count = N;                                  // room in units
 *   weft_shard_add_units(context, params, N, &grouping, &policy, handles, units, &unit_count);
 *
 * makes the units embed.weight, blocks.0, blocks.1, ... and one more for everything after the blocks: a norm and a
 * head. PyTorch's wrap policies do this for modules.
 *
 * Errors: INVALID_ARGUMENT, BAD_STATE. Thread rule: as shard.h: one thread at a time.
 */
#ifndef WEFT_SHARD_UNITS_H_
#define WEFT_SHARD_UNITS_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How params are grouped into units. Give at least one of the two. */
typedef struct weft_shard_grouping {
  size_t struct_size;
  /* Params whose names begin with the same match form one unit, which has the match as its name. A name consists of components
   * between dots, and "*" matches any one component: "blocks.*" puts "blocks.0.attn.weight" into unit "blocks.0". Neighbours that
   * do not match, before, between and after the blocks, form units of their own, named after their first param. NULL: every
   * param is a group of its own. */
  const char* by_prefix;
  /* Neighbouring groups are merged from the first one on until a unit has this many bytes of parameters; what is left
   * at the end joins the last unit. Groups of by_prefix are never split. 0: none are merged. */
  size_t min_bytes;
} weft_shard_grouping_t;

/* Declares params[0..n), given in the order in which forward uses them and all with the same struct_size, and the units that hold them, each
 * with `policy` (NULL: NO_SHARD). handles: [n], receives the params. units: room for *unit_count units (n always
 * suffices); *unit_count becomes their number. A call that fails declares nothing. You may declare more units
 * before and after it.
 * Errors: INVALID_ARGUMENT (as weft_shard_unit_begin and weft_shard_unit_add_param; neither of the two ways to
 * group; a prefix that nothing matches, or whose params are not neighbours; too little room in units, and the
 * message has their number), BAD_STATE. */
WEFT_EXPORT weft_result_t weft_shard_add_units(weft_shard_context_t context,
                                               const weft_shard_param_config_t* params, size_t n,
                                               const weft_shard_grouping_t* grouping,
                                               const weft_shard_policy_t* policy,
                                               weft_shard_param_t* handles,
                                               weft_shard_unit_t* units, size_t* unit_count);

WEFT_END_DECLS

#endif /* WEFT_SHARD_UNITS_H_ */
