/* Memory that ranks of the same node can reach directly.
 *
 * Collectives on buffers from here move 2PS bytes where private ones move (5P-2)S (P ranks, S
 * bytes), because each rank reduces straight from and into its peers' memory. (Lists of buffers,
 * iov.h, gain nothing.) Allocation is local,
 * not collective: ranks may allocate different sizes in any order, and may mix this memory with any
 * other in one operation. A block that all ranks of a group have, for results that they need once
 * (weft_mem_alloc_shared), is made by all together. A child forked by a process that has such memory does not
 * have it: there all of these calls return FORKED.
 */
#ifndef WEFT_MEM_H_
#define WEFT_MEM_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Allocates `bytes` (> 0), zeroed, aligned to 4096. `flags` must be 0. Pages are there when the
 * call returns: lack of memory is OUT_OF_MEMORY now, not a signal later. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY, SYSTEM_ERROR. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_alloc(size_t bytes, uint32_t flags, void** memory);

/* Frees memory from weft_mem_alloc. A block that an operation with a work still uses is freed when the
 * operation ends; the buffers of a blocking call must stay until it has returned. NULL is fine. INVALID_ARGUMENT
 * for any other pointer. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_free(void* memory);

/* Copies `bytes` (> 0) bytes from memory of any kind into a new block: *view is as of weft_mem_alloc(), and
 * goes back by weft_mem_free(). For a framework whose buffers are its own: where copying once and working on the
 * view costs less than a collective on private memory, which weft_explain() says, let go of the original
 * and use the view. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_alloc_copy(const void* from, size_t bytes, void** view);

/* Allocates `bytes` (> 0, the same on all ranks), zeroed, aligned to 4096, which all ranks of the group
 * have: *memory is each rank's address of the same bytes. Collective.
 *
 * Such memory may be used as any from weft_mem_alloc(). Besides, it may be the `out` of several ranks at a time in
 * weft_all_reduce, weft_broadcast, weft_all_gather and weft_all_gather_v: one result for all of these ranks, of which
 * each byte is written once, and which is complete when the call has returned on any of them. An all_gather in place
 * then moves nothing, nor does a broadcast whose root has in == out. Ranks that give the same place give the
 * same address of the block; other ranks may give memory of their own. Small results are written by the ranks one after
 * the other, so this is for large ones. What one rank does with the result the others see: agree on who may change
 * which part, and when. No rank's input may lie in another rank's part of the result, other than in all_reduce and
 * broadcast in place. Not in lists of buffers (iov.h).
 *
 * Also in operations of other groups of these processes. The memory belongs to rank 0's heap and is counted
 * there (weft_group_stats). It stays until weft_mem_free_shared(), or until this rank destroys the group: then it may not
 * touch the memory any more. Errors: INVALID_ARGUMENT, on this rank alone, which takes no part then; on all ranks
 * OUT_OF_MEMORY on rank 0 and REMOTE_ERROR on the others; MISMATCH if sizes differ; those of a collective. Any thread, like a collective. */
WEFT_EXPORT weft_result_t weft_mem_alloc_shared(weft_group_t group, size_t bytes, void** memory);

/* Gives back memory from weft_mem_alloc_shared() of the same group. Collective: all ranks pass their own address of
 * the same block, and no operation may be using it on any rank. Errors: INVALID_ARGUMENT if no block of the group
 * begins there, and REMOTE_ERROR on the other ranks then; MISMATCH if they pass different blocks; those of a
 * collective. Nothing is freed then. Any thread, like a collective. */
WEFT_EXPORT weft_result_t weft_mem_free_shared(weft_group_t group, void* memory);

/* Makes memory that the caller owns as reachable as memory from weft_mem_alloc: moves its pages into
 * weft's heap, under the same addresses and with the same contents. `memory` and `bytes` must be
 * multiples of the page size (4096), readable, writable and private; not a stack. While the call runs
 * nobody may touch the range. A child forked later does not have the range. `flags` must be 0.
 * Until weft_mem_deregister() the caller must not unmap, remap or free the range.
 * Errors: INVALID_ARGUMENT (NULL, alignment, overlap with another registration or with weft's own
 * memory), OUT_OF_MEMORY, SYSTEM_ERROR; the range is then as before. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_register(void* memory, size_t bytes, uint32_t flags);

/* Makes the range private memory again, with its contents. BAD_STATE while an operation of this
 * process uses it, INVALID_ARGUMENT if `memory` is not the beginning of a registration. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_deregister(void* memory);

/* Where weft gets private memory whose size depends on the caller's data: messages that came before
 * their receive, temporaries of user reductions, private buffers of shard contexts. Handles and
 * control structures come from operator new. */
typedef struct weft_allocator {
  size_t struct_size;
  /* `bytes` > 0 at a multiple of `alignment`, a power of two; NULL when there is none. */
  void* (*allocate)(size_t bytes, size_t alignment, void* user);
  /* What `allocate` gave, with the same bytes. */
  void (*release)(void* memory, size_t bytes, void* user);
  void* user;
} weft_allocator_t;

/* Sets the allocator of the process, before the first group is made (BAD_STATE later); NULL: the
 * default, operator new. Its functions may be called from any thread and must not call weft.
 * Errors: INVALID_ARGUMENT (a function is NULL), BAD_STATE. Any thread. */
WEFT_EXPORT weft_result_t weft_set_allocator(const weft_allocator_t* allocator);

WEFT_END_DECLS

#endif /* WEFT_MEM_H_ */
