// The later stages of a reduction: comm/device/element/merge.h. The results that wait are in shared memory, an access of 16 bytes for each
// thread and level; whoever launches says how many levels there are, by the size of the memory.
#include "comm/device/element/merge.h"
#include "comm/device/kernels/kernel_list.h"
#include "comm/device/kernels/team.cuh"

namespace weft::device {

class WaitingInSharedMemory {
 public:
  template <typename T, int kWidth>
  __device__ __forceinline__ void Push(int level, const Packet<T, kWidth>& value) {
    StorePacket(At(level), value);
  }

  template <typename T, int kWidth>
  __device__ __forceinline__ void Read(int level, Packet<T, kWidth>& value) {
    value = LoadPacket<T, kWidth>(At(level));
  }

 private:
  __device__ __forceinline__ static char* At(int level) {
    extern __shared__ __align__(16) char waiting[];
    return waiting + (level * blockDim.x + threadIdx.x) * 16;
  }
};

#define WEFT_DEFINE(name, E, Op, Out)                            \
  WEFT_KERNEL(name, ReduceParameters, 2) {                       \
    WaitingInSharedMemory waiting;                               \
    MergeSources<E, Op, Out>(parameters, ThisWorker(), waiting); \
  }
WEFT_MERGE_KERNELS(WEFT_DEFINE)

}  // namespace weft::device
