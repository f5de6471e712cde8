/* Where a shard context gets its memory: from weft's own heap, or from the caller.
 *
 * If your framework has a caching allocator, or wants the parameters in an arena of its own, give the
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
 * The order of requests depends only on the model and the rank. In finalize, for each kind of params (dtype, frozen or not,
 * policy) in the order of declaration: TIER_PARAMS, then TIER_GRADIENTS unless frozen, and TIER_GRADIENTS once more if
 * reduced gradients of several micro-batches are added up; then TIER_OPTIMIZER, up to three blocks per bucket, or one if its
 * state is offloaded, and one more if params are, for which there is no TIER_PARAMS then; then TIER_POOL, once, if anything is sharded. Later only TIER_POOL: when a step leaves the expected order, and when
 * finish has learnt an order that needs more. Requests are never for 0 bytes. So if your memory exists
 * already, hand it out by tier and turn; the plan of finalize has the sums: param_bytes, grad_bytes, optimizer_bytes, pool_bytes.
 *
 * Any memory of the process works and gives the same bits. Ranks of one node read and write weft's own heap directly, which
 * is faster. To get this, call weft_mem_alloc in the callback, or weft_mem_register on your memory before.
 *
 * Errors: if `allocate` returns NULL, or an address that is not a multiple of `alignment`, the call that needed the memory
 * returns OUT_OF_MEMORY and names bytes and tier; a misaligned block is released first. If that call is finalize, the other
 * ranks get REMOTE_ERROR, and everything is released.
 *
 * Thread rule: the thread that is in a call of the context calls both functions, one at a time per context, often while the
 * context is locked: they may call weft_mem_* but nothing else of weft. If contexts on several threads share an allocator,
 * all of these threads call it. When weft_shard_context_destroy returns, everything has been released.
 */
#ifndef WEFT_SHARD_MEMORY_H_
#define WEFT_SHARD_MEMORY_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What a context uses memory for. */
typedef enum weft_shard_tier {
  WEFT_SHARD_TIER_PARAMS = 0, /* parameters, or this rank's shards of them */
  WEFT_SHARD_TIER_GRADIENTS =
      1, /* gradients, or this rank's shards of them, and sums over micro-batches */
  WEFT_SHARD_TIER_OPTIMIZER = 2, /* moments and main copies */
  WEFT_SHARD_TIER_POOL = 3       /* unsharded params and gradients of the units in use */
} weft_shard_tier_t;

/* The caller's memory for one context. Its contents need not be set: weft zeroes it. */
typedef struct weft_shard_allocator {
  size_t struct_size;
  /* Returns `bytes` > 0 at a multiple of `alignment`, a power of two (64); NULL if there is no memory. */
  void* (*allocate)(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user);
  /* Takes back a block from `allocate`, once, with the same bytes and tier. */
  void (*release)(void* memory, size_t bytes, weft_shard_tier_t tier, void* user);
  void* user;
  /* Called once with `user`, after the last release, by weft_shard_context_destroy; not if weft_shard_context_create fails. NULL:
   * nothing is called. */
  void (*release_user)(void* user);
} weft_shard_allocator_t;

WEFT_END_DECLS

#endif /* WEFT_SHARD_MEMORY_H_ */
