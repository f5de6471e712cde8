/* Optimizer state in files, and params too: for models that do not fit in memory.
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
 * With `params`, what this rank keeps of params that are sharded at rest (GRAD_OP, FULL_SHARD and what is like it) is in the file as well, and
 * in memory only while its unit is gathered, or updated. A gather reads this rank's part to where it lies among those of the others, as
 * far ahead as units are gathered (prefetch); each gather of a unit reads it once, and the update reads and writes it: all in the plan. Frozen
 * params too. weft_shard_param_part has no address of their values then: weft_shard_state_read and weft_shard_state_write, or
 * weft_shard_param_load and weft_shard_param_read. It takes an optimizer, and no trainable param of kind WEFT_OPTIMIZER_OWN.
 *
 * Transfers go past the page cache (O_DIRECT), by io_uring where the module libweft_uring.so and the system have it, else by threads;
 * WEFT_OFFLOAD_IO says which.
 *
 * Errors: finalize returns SYSTEM_ERROR or OUT_OF_MEMORY naming the directory if the file cannot be made, CORRUPT if the disk is broken,
 * UNSUPPORTED if WEFT_OFFLOAD_IO asks for io_uring in vain. If the disk fails later, the update returns SYSTEM_ERROR, or TIMEOUT after the
 * context's timeout_ns, and ends the group, so that no rank waits; the state is lost, and training goes on from a checkpoint. If
 * params cannot be read, the call that needs their unit returns SYSTEM_ERROR, and ends the group too: other ranks have ABORTED with its sentence, or
 * TIMEOUT naming this rank if the disk hangs for longer than they wait. So do weft_shard_param_load, weft_shard_param_read,
 * weft_shard_context_broadcast and weft_shard_context_verify. Making a plan, and finalize, returns INVALID_USAGE if params are to be offloaded and the context has no
 * optimizer, UNSUPPORTED naming a param of kind OWN.
 */
#ifndef WEFT_SHARD_OFFLOAD_H_
#define WEFT_SHARD_OFFLOAD_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Where a rank's optimizer state goes: a relative directory is so to the current one of weft_shard_context_create. Memory is more than buffer_bytes if a matrix of MUON is larger than a quarter of it. */
typedef struct weft_shard_offload {
  size_t struct_size;
  const char* directory; /* that is there, and may be written to; copied */
  size_t buffer_bytes;   /* memory for parts of the state, from 1 MiB on; 0: 64 MiB */
  /* 1: params that are sharded at rest, too, with more memory to read them through: a quarter of buffer_bytes, 8 MiB at most. 0: they stay in memory.
   * The same on all ranks. */
  int params;
} weft_shard_offload_t;

WEFT_END_DECLS

#endif /* WEFT_SHARD_OFFLOAD_H_ */
