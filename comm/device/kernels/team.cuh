// What kernels have in common: the thread's place in a launch, and the sum of a block of squares by a team of threads.
#pragma once

#include "comm/device/element/squares.h"
#include "comm/device/element/worker.h"

namespace weft::device {

constexpr int kThreads = 256;  // of a block of threads, in every launch

__device__ __forceinline__ Worker ThisWorker() {
  return {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x};
}

// A kernel of weft: its name is what host code asks the driver for. kLeastBlocks of it fit a multiprocessor, which bounds its registers.
#define WEFT_KERNEL(name, Parameters, kLeastBlocks)                                    \
  extern "C" __global__ void __launch_bounds__(::weft::device::kThreads, kLeastBlocks) \
      name(const __grid_constant__ Parameters parameters)

// Folds the partial sums that a team of 16 / kOwn neighbouring threads has. The sum is member 0's.
template <int kOwn>
__device__ __forceinline__ double FoldTeam(Packet<double, kOwn> partials) {
#pragma unroll
  for (int half = kSquarePartials / 2; half >= kOwn; half /= 2) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const double other = __shfl_down_sync(~0u, partials.at[i], half / kOwn);
      partials.at[i] = partials.at[i] + other;
    }
  }
#pragma unroll
  for (int half = kOwn / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i)
      partials.at[i] = partials.at[i] + partials.at[i + half];
  }
  return partials.at[0];
}

// Exact sums of a block of threads in shared memory, which are added to those in global memory at the end.
template <int kWords>
class SharedWords {
 public:
  // Called by all threads of the block, as is AddTo.
  __device__ __forceinline__ explicit SharedWords(unsigned long long* words) : words_(words) {
    for (int i = threadIdx.x; i < kWords; i += blockDim.x)
      words_[i] = 0;
    __syncthreads();
  }

  __device__ __forceinline__ void Add(int word, int64_t part) {
    atomicAdd(words_ + word, static_cast<unsigned long long>(part));
  }

  __device__ __forceinline__ void AddTo(int64_t* to, int first, int count) const {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      if (words_[first + i] != 0)
        atomicAdd(reinterpret_cast<unsigned long long*>(to) + i, words_[first + i]);
    }
  }

 private:
  unsigned long long* words_;
};

}  // namespace weft::device
