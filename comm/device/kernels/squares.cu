// Sums of squares: comm/device/element/squares.h.
#include "comm/device/kernels/kernel_list.h"
#include "comm/device/kernels/team.cuh"

namespace weft::device {

template <typename E>
__device__ __forceinline__ void SumSquares(const SquaresParameters& parameters) {
  constexpr int kTeam = kTeamThreads<E>;
  __shared__ unsigned long long shared[kExactWords + 1];
  SharedWords<kExactWords + 1> words(shared);
  const Worker worker = ThisWorker();
  const int member = static_cast<int>(worker.index % kTeam);
  const uint64_t teams = worker.count / kTeam;
  const uint64_t end = EndBlock(parameters);
  // All threads of a warp take as many turns, so that all are there for each fold.
  const uint64_t first = FirstBlock(parameters);
  const uint64_t turns = (end - first + teams - 1) / teams;
  for (uint64_t turn = 0; turn < turns; ++turn) {
    const uint64_t block = first + turn * teams + worker.index / kTeam;
    const auto partials = PartialsOf<E>(parameters, block, member);
    const double sum = FoldTeam<kTeamPartials<E>>(partials);
    const double of_team = __shfl_sync(~0u, sum, (threadIdx.x % 32) / kTeam * kTeam);
    if (block >= end) continue;
    if (member == 0) AddToWords(of_team, [&](int word, int64_t part) { words.Add(word, part); });
    if (!IsFinite(of_team)) words.Add(kExactWords, NonfiniteOf<E>(parameters, block, member));
  }
  __syncthreads();
  words.AddTo(parameters.words, 0, kExactWords + 1);
}

#define WEFT_DEFINE(name, E)                \
  WEFT_KERNEL(name, SquaresParameters, 2) { \
    SumSquares<E>(parameters);              \
  }
WEFT_SQUARES_KERNELS(WEFT_DEFINE)

}  // namespace weft::device
