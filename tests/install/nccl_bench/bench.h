// A small benchmark of NCCL that uses it as nccl-tests does: threads with several devices each, every operation out of place and in place,
// buffers from ncclMemAlloc that are registered, one program for many versions of NCCL. The install test compiles it against
// weft/nccl_compat.h, and against NVIDIA's header where there is one.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>
#include <nccl.h>

// Versions that have functions for kernels have them there.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include <nccl_device.h>
#endif

// Of versions before 2.13, which have none; bench.cc defines a weak one.
extern "C" const char* ncclGetLastError(ncclComm_t comm);

#define CHECK_NCCL(call)                                                                       \
  do {                                                                                         \
    const ncclResult_t result = (call);                                                        \
    if (result != ncclSuccess) {                                                               \
      std::fprintf(stderr, "%s:%d: %s / %s\n", __FILE__, __LINE__, ncclGetErrorString(result), \
                   ncclGetLastError(NULL));                                                    \
      std::exit(3);                                                                            \
    }                                                                                          \
  } while (0)
#define CHECK_CUDA(call)                                                                  \
  do {                                                                                    \
    const cudaError_t error = (call);                                                     \
    if (error != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(2);                                                                       \
    }                                                                                     \
  } while (0)

struct Operation {
  const char* name;
  // Of `count` floats per rank as the table has it: how many are sent and received, and where they lie in place.
  size_t (*sent)(size_t count, int ranks);
  size_t (*received)(size_t count, int ranks);
  size_t (*in_place_sent_at)(size_t count, int rank);
  size_t (*in_place_received_at)(size_t count, int rank);
  // What element i of what `rank` receives must be.
  float (*expected)(size_t i, size_t count, int rank, int ranks);
  ncclResult_t (*run)(const void* send, void* receive, size_t count, ncclComm_t comm, int rank,
                      int ranks, cudaStream_t stream);
};

// What rank r sends: small whole numbers, whose sums are exact.
inline float Sent(size_t i, int rank) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 3) % 61);
}

extern const Operation kOperations[];
extern const size_t kOperationCount;
