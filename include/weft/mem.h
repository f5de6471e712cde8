/* Memory that ranks of the same node can reach directly.
 *
 * Collectives on buffers from here move 2PS bytes where private ones move (5P-2)S (P ranks, S
 * bytes), because each rank reduces straight from and into its peers' memory. (Lists of buffers,
 * iov.h, gain nothing.) Allocation is local,
 * not collective: ranks may allocate different sizes in any order, and may mix this memory with any
 * other in one operation.
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
 * operation ends; the buffers of a blocking call must stay until it has returned. NULL is fine. INVALID_ARGUMENT for any other pointer. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_free(void* memory);

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
