/* weft's memory as a tensor of another framework, without a copy: DLPack.
 *
 *   weft_shard_view_t view = {.struct_size = sizeof view};
 *   weft_shard_param_view(param, &view);
 *   weft_tensor_t tensor = {.struct_size = sizeof tensor, .data = view.data, .shape = shape, .ndim = 2, .dtype = view.dtype};
 *   struct DLManagedTensorVersioned* managed;
 *   weft_mem_dlpack(&tensor, &managed);       // put it into a capsule "dltensor_versioned" for Python
 *
 * The tensor keeps its block (weft_mem_retain), so that it outlives the context or the group that the memory came from. Of a
 * device it is a kDLCUDA tensor with the device's ordinal, of pinned memory a kDLCUDAHost one. weft enqueues nothing: whoever
 * receives it orders its stream behind the one in which the memory was allocated or written.
 * Its deleter gives the block back: plain C, on any thread, also late in the end of an interpreter. Of a device and of pinned memory it does so
 * behind what is in CUDA's legacy stream of that device then; if it cannot, while a capture is under way there, say, the block is kept
 * until a later tensor is made or deleted.
 *
 * Source: the DLPack specification, version 1 (https://dmlc.github.io/dlpack/latest/).
 */
#ifndef WEFT_DLPACK_H_
#define WEFT_DLPACK_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* As dlpack.h declares it. */
struct DLManagedTensorVersioned;

/* How many dimensions a tensor may have. */
#define WEFT_TENSOR_DIMS_MAX 32

/* A tensor in memory of weft's, rows without gaps: the last dimension varies fastest. */
typedef struct weft_tensor {
  size_t struct_size;
  void* data; /* the first element, anywhere in a block that weft_mem_retain takes; never NULL */
  const int64_t* shape; /* [ndim], copied */
  int ndim;             /* 0..WEFT_TENSOR_DIMS_MAX; 0: one element */
  weft_dtype_t dtype;
  int read_only; /* 1: who receives it must not write */
} weft_tensor_t;

/* Wraps the tensor for another framework, which calls (*managed)->deleter(*managed) when it is done. Strides are always set. Errors:
 * INVALID_ARGUMENT (NULL, shape, dtype, memory that is no block of weft's, as a registered range is not, or ends before the tensor
 * does), UNSUPPORTED (memory from weft_mem_alloc_shared), OUT_OF_MEMORY, FORKED. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_dlpack(const weft_tensor_t* tensor,
                                          struct DLManagedTensorVersioned** managed);

WEFT_END_DECLS

#endif /* WEFT_DLPACK_H_ */
