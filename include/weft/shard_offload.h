/* Optimizer state in files: for models whose moments and main copies do not fit in memory.
 *
 *   weft_shard_offload_t offload = {.struct_size = sizeof offload, .directory = "/scratch"};
 *   weft_shard_config_t config = {.struct_size = sizeof config, .offload = &offload};
 *   weft_shard_context_create(mesh, &config, &context);
 *
 * Each rank makes a file in the directory, as large as its state (plan.offload_bytes): 8 bytes per float32 param that it updates with
 * ADAMW, 12 if the param has 16 bits and so a main copy. The room is reserved by finalize, zeroed, and given back by
 * weft_shard_context_destroy, or by the system when the process ends, however it does: the file has no name, and is no checkpoint. So
 * choose a disk of the node's own, the fastest; ranks may have different ones.
 *
 * weft_shard_optimizer_step goes through the file from its beginning to its end, and reads the next part while it updates one and writes
 * the one before. What a step reads and writes is in the plan (offload_read_bytes, offload_written_bytes): 16 bytes per param with ADAMW, 24
 * with main copies. LAMB and LARS, which need norms of whole params first, read their state twice. Memory for it is buffer_bytes
 * instead of the state. Params, gradients and results stay as they are: the same bits as without offload, on any number of ranks
 * and under every preset. docs/offload.md has figures.
 *
 * Transfers go past the page cache (O_DIRECT), by io_uring where the module libweft_uring.so and the system have it, else by threads;
 * WEFT_OFFLOAD_IO says which.
 *
 * Errors: finalize returns SYSTEM_ERROR or OUT_OF_MEMORY naming the directory if the file cannot be made, CORRUPT if the disk is broken,
 * UNSUPPORTED if WEFT_OFFLOAD_IO asks for io_uring in vain. If the disk fails later, the update returns SYSTEM_ERROR, or TIMEOUT after the
 * context's timeout_ns, and ends the group, so that no rank waits; the state is lost, and training goes on from a checkpoint.
 */
#ifndef WEFT_SHARD_OFFLOAD_H_
#define WEFT_SHARD_OFFLOAD_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Where a rank's optimizer state goes. Memory is more than buffer_bytes if a matrix of MUON is larger than a quarter of it. */
typedef struct weft_shard_offload {
  size_t struct_size;
  const char* directory; /* that is there, and may be written to; copied */
  size_t buffer_bytes;   /* memory for parts of the state, from 1 MiB on; 0: 64 MiB */
} weft_shard_offload_t;

WEFT_END_DECLS

#endif /* WEFT_SHARD_OFFLOAD_H_ */
