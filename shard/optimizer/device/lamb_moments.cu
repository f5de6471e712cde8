// The first phase of LAMB: shard/optimizer/device/lamb_moments.h.
#include "comm/device/kernels/team.cuh"
#include "shard/optimizer/device/kernel_list.h"
#include "shard/optimizer/device/lamb_moments.h"

namespace weft::device {

template <typename G>
__device__ __forceinline__ void MomentsOfLamb(const LambMomentsParameters& parameters) {
  __shared__ unsigned long long shared[2 * kExactWords];
  SharedWords<2 * kExactWords> words(shared);
  const Worker worker = ThisWorker();
  const int member = static_cast<int>(worker.index % kLambThreads);
  const uint64_t teams = worker.count / kLambThreads;
  const uint64_t first = parameters.first_index / kSquareBlockElements;
  const uint64_t end = EndLambBlock(parameters);
  const uint64_t turns = (end - first + teams - 1) / teams;
  for (uint64_t turn = 0; turn < turns; ++turn) {
    const uint64_t block = first + turn * teams + worker.index / kLambThreads;
    const LambPartials partials = UpdateMoments<G>(parameters, block, member);
    const double weights = FoldTeam<kLambOwn>(partials.weights);
    const double updates = FoldTeam<kLambOwn>(partials.updates);
    if (block >= end || member != 0) continue;
    AddToWords(weights, [&](int word, int64_t part) { words.Add(word, part); });
    AddToWords(updates, [&](int word, int64_t part) { words.Add(kExactWords + word, part); });
  }
  __syncthreads();
  words.AddTo(parameters.weight_words, 0, kExactWords);
  words.AddTo(parameters.update_words, kExactWords, kExactWords);
}

#define WEFT_DEFINE(name, G)                    \
  WEFT_KERNEL(name, LambMomentsParameters, 2) { \
    MomentsOfLamb<G>(parameters);               \
  }
WEFT_LAMB_MOMENTS_KERNELS(WEFT_DEFINE)

}  // namespace weft::device
