// CUDA's runtime as far as a benchmark of NCCL needs it, for a machine without a GPU: device memory is host memory, all that is asked for is
// done at once, and the one stream is NULL. Put its folder before CUDA's own on the include path.
#pragma once

#include <cstdlib>
#include <cstring>

typedef struct CUstream_st* cudaStream_t;

typedef enum {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600
} cudaError_t;

typedef enum {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDefault = 4
} cudaMemcpyKind;

struct cudaDeviceProp {
  char name[256];
  int pciBusID;
  size_t totalGlobalMem;
};

enum : unsigned { cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaHostAllocMapped = 2 };

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "out of memory";
}

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 64;
  return cudaSuccess;
}

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"host memory", 0, size_t{1} << 34};
  return cudaSuccess;
}

inline cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes == 0 ? 1 : bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

inline cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}

inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

inline cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}

inline cudaError_t cudaStreamQuery(cudaStream_t) {
  return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}

inline cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
