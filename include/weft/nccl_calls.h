/* The collectives, messages, memory and reductions of nccl_compat.h. Include weft/nccl_compat.h,
 * which says how they differ from NCCL's: calls block, streams are NULL.
 *
 * Thread rule and errors of all: as in nccl_compat.h. Buffers and counts: as in nccl.h.
 */
#ifndef WEFT_NCCL_CALLS_H_
#define WEFT_NCCL_CALLS_H_

#include "weft/nccl_compat.h"

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-nullptr): nccl.h's names, and C. */

WEFT_BEGIN_DECLS

/* Options that carry the stream, so that the group refuses it with a sentence. */
static inline const weft_call_t* weft_nccl_call(weft_call_t* call, cudaStream_t stream) {
  const weft_call_t with_stream = {
      sizeof(weft_call_t), 0, NULL, 0, (weft_dtype_t)0, WEFT_NUMERICS_CANONICAL, 0, 0,
      (void*)stream};
  if (stream == NULL) return NULL;
  *call = with_stream;
  return call;
}

/* ---- collectives ------------------------------------------------------------------------------- */

static inline ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_all_reduce(sendbuff, recvbuff, count, (weft_dtype_t)datatype,
                                          (weft_op_t)op, weft_nccl_group(comm),
                                          weft_nccl_call(&call, stream), NULL));
}

static inline ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, int root,
                                      ncclComm_t comm, cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_reduce(sendbuff, recvbuff, count, (weft_dtype_t)datatype,
                                      (weft_op_t)op, root, weft_nccl_group(comm),
                                      weft_nccl_call(&call, stream), NULL));
}

static inline ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, int root, ncclComm_t comm,
                                         cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_broadcast(sendbuff, recvbuff, count, (weft_dtype_t)datatype, root,
                                         weft_nccl_group(comm), weft_nccl_call(&call, stream),
                                         NULL));
}

/* In place. */
static inline ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                                     ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

static inline ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                         ncclDataType_t datatype, ncclComm_t comm,
                                         cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_all_gather(sendbuff, recvbuff, sendcount, (weft_dtype_t)datatype,
                                          weft_nccl_group(comm), weft_nccl_call(&call, stream),
                                          NULL));
}

static inline ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                             ncclDataType_t datatype, ncclRedOp_t op,
                                             ncclComm_t comm, cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_reduce_scatter(sendbuff, recvbuff, recvcount, (weft_dtype_t)datatype,
                                              (weft_op_t)op, weft_nccl_group(comm),
                                              weft_nccl_call(&call, stream), NULL));
}

static inline ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                        ncclDataType_t datatype, ncclComm_t comm,
                                        cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_all_to_all(sendbuff, recvbuff, count, (weft_dtype_t)datatype,
                                          weft_nccl_group(comm), weft_nccl_call(&call, stream),
                                          NULL));
}

static inline ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, int root, ncclComm_t comm,
                                      cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_gather(sendbuff, recvbuff, count, (weft_dtype_t)datatype, root,
                                      weft_nccl_group(comm), weft_nccl_call(&call, stream), NULL));
}

static inline ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                                       ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_scatter(sendbuff, recvbuff, count, (weft_dtype_t)datatype, root,
                                       weft_nccl_group(comm), weft_nccl_call(&call, stream), NULL));
}

/* ---- messages and groups of calls -------------------------------------------------------------- */

static inline ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype,
                                    int peer, ncclComm_t comm, cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_send(sendbuff, count, (weft_dtype_t)datatype, peer, 0,
                                    weft_nccl_group(comm), weft_nccl_call(&call, stream), NULL));
}

/* A negative peer is refused: NCCL has no any-source. */
static inline ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                                    ncclComm_t comm, cudaStream_t stream) {
  weft_call_t call;
  return weft_nccl_result(weft_recv(recvbuff, count, (weft_dtype_t)datatype,
                                    peer == WEFT_ANY_SOURCE ? INT_MIN : peer, 0, NULL,
                                    weft_nccl_group(comm), weft_nccl_call(&call, stream), NULL));
}

static inline ncclResult_t ncclGroupStart(void) {
  return weft_nccl_result(weft_batch_begin());
}

static inline ncclResult_t ncclGroupEnd(void) {
  return weft_nccl_result(weft_batch_end());
}

/* ---- reductions -------------------------------------------------------------------------------- */

/* scalar is host memory whatever `residence` says, and read now. The reduction fits every comm. */
static inline ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                    ncclDataType_t datatype,
                                                    ncclScalarResidence_t residence,
                                                    ncclComm_t comm) {
  weft_op_t made = WEFT_SUM;
  weft_result_t result = WEFT_SUCCESS;
  (void)residence;
  if (op == NULL || comm == NULL) return ncclInvalidArgument;
  result = weft_op_create_premul_sum(scalar, (weft_dtype_t)datatype, &made);
  if (result == WEFT_SUCCESS) *op = (ncclRedOp_t)made;
  return weft_nccl_result(result);
}

static inline ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (comm == NULL) return ncclInvalidArgument;
  return weft_nccl_result(weft_op_destroy((weft_op_t)op));
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Memory that other ranks of the machine reach directly: the fastest for collectives. */
static inline ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  if (ptr == NULL) return ncclInvalidArgument;
  if (size == 0) {
    *ptr = NULL;
    return ncclSuccess;
  }
  return weft_nccl_result(weft_mem_alloc(size, 0, ptr));
}

static inline ncclResult_t ncclMemFree(void* ptr) {
  return weft_nccl_result(weft_mem_free(ptr));
}

/* Registers whole pages; anything else (unaligned, from ncclMemAlloc, registered before) works
 * unregistered and gets a handle whose low bits say so. */
static inline ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size,
                                            void** handle) {
  const size_t page = 4096;
  if (comm == NULL || buff == NULL || handle == NULL) return ncclInvalidArgument;
  *handle = buff;
  if ((uintptr_t)buff % page == 0 &&
      (size == 0 || size % page != 0 || weft_mem_register(buff, size, 0) != WEFT_SUCCESS)) {
    *handle = (char*)buff + 1;
  }
  return ncclSuccess;
}

static inline ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const size_t page = 4096;
  if (comm == NULL) return ncclInvalidArgument;
  if ((uintptr_t)handle % page != 0) return ncclSuccess;
  return weft_nccl_result(weft_mem_deregister(handle));
}

/* Of one rank: others need not register theirs, and what is not whole pages works as it is. */
static inline ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size,
                                                  ncclWindow_t* win, int winFlags) {
  void* handle = NULL;
  ncclResult_t result = ncclSuccess;
  if (win == NULL || size == 0 || (winFlags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
    return ncclInvalidArgument;
  }
  result = ncclCommRegister(comm, buff, size, &handle);
  if (result == ncclSuccess) *win = (ncclWindow_t)handle;
  return result;
}

/* NULL: nothing is registered, and nothing is done. */
static inline ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return win == NULL && comm != NULL ? ncclSuccess : ncclCommDeregister(comm, (void*)win);
}

WEFT_END_DECLS

/* NOLINTEND(readability-identifier-naming,modernize-use-nullptr) */

#endif /* WEFT_NCCL_CALLS_H_ */
