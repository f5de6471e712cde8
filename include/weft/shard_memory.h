/* Where a shard context gets its memory: weft's own heap, or the caller.
 *
 * A framework with a caching allocator, or one that wants the parameters where it has put them, gives the
 * context two functions:
 *
 *   static void* Give(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user) {
 *     struct my_arena* arena = user;
 *     if (tier == WEFT_SHARD_TIER_PARAMS && bytes <= arena->params_left) return arena_cut(arena, bytes, alignment);
 *     return my_aligned_alloc(bytes, alignment);
 *   }
 *   static void Take(void* memory, size_t bytes, weft_shard_tier_t tier, void* user) { ... }
 *
 *   weft_shard_allocator_t allocator = {sizeof allocator, Give, Take, &arena};
 *   weft_shard_config_t config = {.struct_size = sizeof config, .allocator = &allocator};
 *
 * What asks for memory, in this order, and the same in every process that declares the same model and has the same
 * rank. In finalize: per kind of params (dtype, frozen or not, policy), in the order of declaration,
 * TIER_PARAMS, then TIER_GRADIENTS unless frozen, and once more TIER_GRADIENTS if reduced gradients of several
 * micro-batches are added up; then TIER_OPTIMIZER, up to three blocks per bucket; then TIER_POOL, once, if
 * anything rests cut. Later only TIER_POOL: when a step leaves the order that was expected, and when
 * finish has learnt an order that needs more. Nothing of 0 bytes is asked for. So a caller whose memory is there
 * already returns it by tier and turn; the plan of finalize has the sums: param_bytes, grad_bytes, optimizer_bytes, pool_bytes.
 *
 * Any memory of the process will do, and gives the same bits. Ranks of one node read and write weft's own heap directly, which
 * is faster: weft_mem_alloc in the callback is weft's own heap too, and weft_mem_register makes the caller's memory part of it.
 *
 * Errors: NULL, or an address that is not a multiple of `alignment`, is OUT_OF_MEMORY of the call that needed the
 * memory, naming bytes and tier; a misaligned block is released first. Where that call is finalize the other
 * ranks get REMOTE_ERROR, and everything is released.
 *
 * Thread rule: both functions are called by the thread that is in a call of the context, one at a time per context, often while the
 * context is locked: of weft they may call weft_mem_* only. Contexts with one allocator on several threads call it
 * from all of them. weft_shard_context_destroy has released everything when it returns.
 */
#ifndef WEFT_SHARD_MEMORY_H_
#define WEFT_SHARD_MEMORY_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What memory of a context is for. */
typedef enum weft_shard_tier {
  WEFT_SHARD_TIER_PARAMS = 0,    /* parameters, or this rank's parts of them, at rest */
  WEFT_SHARD_TIER_GRADIENTS = 1, /* likewise, and sums of several micro-batches */
  WEFT_SHARD_TIER_OPTIMIZER = 2, /* moments and main copies */
  WEFT_SHARD_TIER_POOL = 3       /* what is whole only for a time */
} weft_shard_tier_t;

/* The caller's memory for one context. Its contents need not be set: weft zeroes it. */
typedef struct weft_shard_allocator {
  size_t struct_size;
  /* `bytes` > 0 at a multiple of `alignment`, a power of two (64); NULL when there is none. */
  void* (*allocate)(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user);
  /* What `allocate` gave, once, with the same bytes and tier. */
  void (*release)(void* memory, size_t bytes, weft_shard_tier_t tier, void* user);
  void* user;
} weft_shard_allocator_t;

WEFT_END_DECLS

#endif /* WEFT_SHARD_MEMORY_H_ */
