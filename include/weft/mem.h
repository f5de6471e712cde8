/* Memory that ranks of the same node can reach directly.
 *
 * Collectives on buffers from here move 2PS bytes where private ones move (5P-2)S (P ranks, S
 * bytes), because each rank reduces straight from and into its peers' memory. Allocation is local,
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

/* Frees memory from weft_mem_alloc. A block that an operation of this process still uses is freed
 * when the operation ends. NULL is fine. INVALID_ARGUMENT for any other pointer. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_free(void* memory);

WEFT_END_DECLS

#endif /* WEFT_MEM_H_ */
