/* The NCCL API on weft, for host buffers: include this instead of nccl.h, link weft.
 *
 *   #include <weft/nccl_compat.h>
 *   ncclComm_t comm;
 *   ncclCommInitRank(&comm, nranks, id, rank);
 *   ncclAllReduce(x, x, n, ncclFloat, ncclSum, comm, NULL);  // done when it returns
 *   ncclCommDestroy(comm);
 *
 * C and C++, header only, names, numbers and signatures of NCCL 2.28, but for the version, which is
 * 2.27's: from 2.28 on programs include nccl_device.h. docs/nccl.md has the table of what is there
 * and how to try it. What differs, because buffers are host memory:
 * - Streams must be NULL; another one is ncclInvalidUsage. A call returns when its buffers may be
 *   reused, and errors are returned by the call they belong to. Between ncclGroupStart and
 *   ncclGroupEnd calls are noted, and all of them are done when ncclGroupEnd returns.
 * - ncclCommInitRank and ncclCommSplit block until all ranks have come. Between ncclGroupStart and
 *   ncclGroupEnd they are noted, and the communicators are made together when the outermost
 *   ncclGroupEnd returns: so one thread may be several ranks. ncclCommInitAll makes all ranks at
 *   once; its device list is ignored.
 * - ncclConfig_t fields other than commName are accepted and have no effect: `blocking = 0` blocks.
 * - ncclCommAbort keeps what the communicator has allocated (about 90 KiB per rank) until the process
 *   ends, as another thread may still be inside a call on comm.
 * - ncclCommRegister and ncclCommWindowRegister speed up ranges of whole pages (weft_mem_register,
 *   whose rules hold: not a stack) and accept all others. No rank waits for another one in them.
 * - Deadlines: nothing waits longer than WEFT_TIMEOUT_S. That, a lost peer and an aborted group are
 *   ncclRemoteError; ranks that call different things are ncclInvalidUsage. ncclGetLastError has the
 *   sentence of the last failed call of weft, not of what these functions refuse by themselves.
 *
 * Thread rule: as weft's groups, any thread; groups of calls belong to their thread. Errors of all:
 * see weft_nccl_result(). Buffers and counts: as in nccl.h.
 */
#ifndef WEFT_NCCL_COMPAT_H_
#define WEFT_NCCL_COMPAT_H_

#include "weft/batch.h"
#include "weft/collective.h"
#include "weft/error.h"
#include "weft/group.h"
#include "weft/mem.h"
#include "weft/nccl_types.h"
#include "weft/op.h"
#include "weft/point_to_point.h"
#include "weft/store.h"

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-nullptr): nccl.h's names, and C. */

WEFT_BEGIN_DECLS

/* ---- results ----------------------------------------------------------------------------------- */

/* The NCCL result for one of weft's: 0-7 are the same. */
static inline ncclResult_t weft_nccl_result(weft_result_t result) {
  switch (result) {
    case WEFT_PEER_LOST:
    case WEFT_UNREACHABLE:
    case WEFT_TIMEOUT:
    case WEFT_ABORTED:
    case WEFT_INTERRUPTED:
    case WEFT_NO_QUORUM:
      return ncclRemoteError;
    case WEFT_MISMATCH:
    case WEFT_BAD_STATE:
    case WEFT_UNSUPPORTED:
    case WEFT_FORKED:
      return ncclInvalidUsage;
    case WEFT_OUT_OF_MEMORY:
    case WEFT_AUTH_FAILED:
      return ncclSystemError;
    default:
      return (int)result >= 0 && (int)result < (int)ncclNumResults ? (ncclResult_t)(int)result
                                                                   : ncclInternalError;
  }
}

static inline const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error (ncclGetLastError has the sentence)";
    case ncclInternalError:
      return "internal error (ncclGetLastError has the sentence)";
    case ncclInvalidArgument:
      return "invalid argument (ncclGetLastError has the sentence)";
    case ncclInvalidUsage:
      return "invalid usage (ncclGetLastError has the sentence)";
    case ncclRemoteError:
      return "remote process exited or there was a network error "
             "(ncclGetLastError has the sentence)";
    case ncclInProgress:
      return "operation in progress";
    default:
      return "unknown result code";
  }
}

/* The sentence of the calling thread's last failure; comm is not looked at and may be NULL. It is
 * weft_last_error() under another name and no function of this file, because programs that are also
 * for old versions of NCCL (nccl-tests) define a weak one of their own, which is then taken. */
const char* ncclGetLastError(ncclComm_t comm) __asm__("weft_last_error");

static inline ncclResult_t ncclGetVersion(int* version) {
  if (version == NULL) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

/* ---- communicators ----------------------------------------------------------------------------- */

static inline weft_group_t weft_nccl_group(ncclComm_t comm) {
  return (weft_group_t)(void*)comm;
}

static inline ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  weft_unique_id_t id;
  weft_result_t result = WEFT_SUCCESS;
  int i = 0;
  if (uniqueId == NULL) return ncclInvalidArgument;
  result = weft_unique_id_create(&id);
  if (result != WEFT_SUCCESS) return weft_nccl_result(result);
  for (i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i)
    uniqueId->internal[i] = id.internal[i];
  return ncclSuccess;
}

/* What of `config` has a meaning here; `name` keeps the name that *out points to. */
static inline ncclResult_t weft_nccl_config(const ncclConfig_t* config, char name[64],
                                            weft_group_config_t* out) {
  const weft_group_config_t defaults = {
      sizeof(weft_group_config_t), NULL, 0, 0, WEFT_DEVICE_HOST, 0, NULL};
  int i = 0;
  *out = defaults;
  if (config == NULL) return ncclSuccess;
  if (config->magic != WEFT_NCCL_CONFIG_MAGIC) return ncclInvalidArgument;
  if (config->commName == NULL) return ncclSuccess;
  for (; i < 63 && config->commName[i] != '\0'; ++i)
    name[i] = config->commName[i];
  name[i] = '\0';
  out->name = name;
  return ncclSuccess;
}

static inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId,
                                                  int rank, ncclConfig_t* config) {
  weft_unique_id_t id;
  weft_group_config_t how;
  weft_result_t result = WEFT_SUCCESS;
  char name[64];
  int i = 0;
  if (comm == NULL || weft_nccl_config(config, name, &how) != ncclSuccess) {
    return ncclInvalidArgument;
  }
  for (i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i)
    id.internal[i] = commId.internal[i];
  /* Set when the group of calls ends, if there is one. */
  result = weft_batch_group_create_from_id(&id, nranks, rank, &how, (weft_group_t*)(void*)comm);
  return weft_nccl_result(result);
}

static inline ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId,
                                            int rank) {
  return ncclCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

/* Uses the first of several ids. */
static inline ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank,
                                                    int nId, ncclUniqueId* commIds,
                                                    ncclConfig_t* config) {
  if (nId < 1 || commIds == NULL) return ncclInvalidArgument;
  return ncclCommInitRankConfig(newcomm, nranks, commIds[0], myrank, config);
}

/* comm: [ndev], all ranks in this process. */
static inline ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  (void)devlist;
  return weft_nccl_result(weft_group_create_local(ndev, NULL, (weft_group_t*)(void*)comm));
}

static inline ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                         ncclConfig_t* config) {
  weft_group_config_t how;
  char name[64];
  if (newcomm == NULL || weft_nccl_config(config, name, &how) != ncclSuccess) {
    return ncclInvalidArgument;
  }
  return weft_nccl_result(weft_batch_group_split(weft_nccl_group(comm), color, key, &how,
                                                 (weft_group_t*)(void*)newcomm));
}

/* Nothing is left to be flushed when calls block; says whether the group still works. */
static inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return weft_nccl_result(weft_group_error(weft_nccl_group(comm)));
}

static inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return weft_nccl_result(weft_group_destroy(weft_nccl_group(comm)));
}

/* Frees no handle, because a thread that it wakes is still inside a call on comm. */
static inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == NULL) return ncclSuccess;
  return weft_nccl_result(weft_group_abort(weft_nccl_group(comm), "ncclCommAbort"));
}

static inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (comm == NULL || asyncError == NULL) return ncclInvalidArgument;
  *asyncError = weft_nccl_result(weft_group_error(weft_nccl_group(comm)));
  return ncclSuccess;
}

static inline ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return weft_nccl_result(weft_group_size(weft_nccl_group(comm), count));
}

static inline ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return weft_nccl_result(weft_group_rank(weft_nccl_group(comm), rank));
}

/* There is no device: -1. */
static inline ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (comm == NULL || device == NULL) return ncclInvalidArgument;
  *device = -1;
  return ncclSuccess;
}

WEFT_END_DECLS

/* NOLINTEND(readability-identifier-naming,modernize-use-nullptr) */

#include "weft/nccl_calls.h"

#endif /* WEFT_NCCL_COMPAT_H_ */
