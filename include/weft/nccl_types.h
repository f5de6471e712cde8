/* The types and constants of nccl.h 2.28, with its numbers, for nccl_compat.h. The version is 2.27's:
 * from 2.28 on programs take nccl_device.h to be there, which is for code on GPUs.
 *
 * Include weft/nccl_compat.h. Everything here is only named like NCCL's: communicators are weft
 * groups, ids are weft ids, streams must be NULL. Not together with NVIDIA's nccl.h in one source.
 *
 * Numbers and layouts are compared with nccl.h by the install test wherever that header is found.
 */
#ifndef WEFT_NCCL_TYPES_H_
#define WEFT_NCCL_TYPES_H_

#include <limits.h>
#include <stddef.h>

#include "weft/types.h"

/* NOLINTBEGIN(readability-identifier-naming): the names are nccl.h's. */

#ifdef NCCL_H_
#error "weft/nccl_compat.h stands in for nccl.h: include one of them in a source, not both"
#endif
/* An nccl.h included later in this source has nothing to add. */
#define NCCL_H_

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 0
#define NCCL_SUFFIX "weft"
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22700

WEFT_BEGIN_DECLS

/* The type that the CUDA headers give this name, so that they may be included as well: before or
 * after this one, in C99, which has no typedef twice, before. */
#ifndef __DRIVER_TYPES_H__
typedef struct CUstream_st* cudaStream_t;
#endif

typedef struct ncclComm* ncclComm_t; /* a weft_group_t under another name */
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR (-1)

/* A range of memory that a communicator knows; here a handle, see ncclCommWindowRegister. */
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/* commName names the group (63 bytes of it); the other members have no meaning here. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define WEFT_NCCL_CONFIG_MAGIC 0xcafebeefU
/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                          \
    sizeof(ncclConfig_t), WEFT_NCCL_CONFIG_MAGIC, NCCL_VERSION_CODE,                       \
    NCCL_CONFIG_UNDEF_INT /* blocking */,      NCCL_CONFIG_UNDEF_INT /* cgaClusterSize */, \
    NCCL_CONFIG_UNDEF_INT /* minCTAs */,       NCCL_CONFIG_UNDEF_INT /* maxCTAs */,        \
    NCCL_CONFIG_UNDEF_PTR /* netName */,       NCCL_CONFIG_UNDEF_INT /* splitShare */,     \
    NCCL_CONFIG_UNDEF_INT /* trafficClass */,  NCCL_CONFIG_UNDEF_PTR /* commName */,       \
    NCCL_CONFIG_UNDEF_INT /* collnetEnable */, NCCL_CONFIG_UNDEF_INT /* CTAPolicy */,      \
    NCCL_CONFIG_UNDEF_INT /* shrinkShare */,   NCCL_CONFIG_UNDEF_INT /* nvlsCTAs */,       \
    NCCL_CONFIG_UNDEF_INT /* nChannelsPerNetPeer */,                                       \
    NCCL_CONFIG_UNDEF_INT /* nvlinkCentricSched */                                         \
}

/* clang-format on */

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;

/* Those of ncclRedOpCreatePreMulSum lie between ncclNumOps and ncclMaxRedOp. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Where a factor lies; both are host memory here, and it is read at once. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* NOLINTEND(readability-identifier-naming) */

WEFT_END_DECLS

#endif /* WEFT_NCCL_TYPES_H_ */
