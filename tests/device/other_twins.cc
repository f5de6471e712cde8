// Twins of the kernels of comm/device but plain reductions.
#include <iterator>

#include "comm/device/element/copy.h"
#include "comm/device/element/digest.h"
#include "comm/device/element/located.h"
#include "comm/device/element/merge.h"
#include "comm/device/element/squares.h"
#include "comm/device/kernels/kernel_list.h"
#include "tests/device/twin_table.h"

namespace weft::test {
namespace {

using namespace weft::device;  // NOLINT(google-build-using-namespace)

// The results that wait of one thread, where a kernel has shared memory.
class Waiting {
 public:
  template <typename T, int kWidth>
  void Push(int level, const Packet<T, kWidth>& value) {
    StorePacket(memory_[level], value);
  }

  template <typename T, int kWidth>
  void Read(int level, Packet<T, kWidth>& value) {
    value = LoadPacket<T, kWidth>(memory_[level]);
  }

 private:
  alignas(16) char memory_[kDeviceSourcesMax][16];
};

template <typename E, typename Op, typename Out>
void Merge(const void* parameters, const TwinLaunch& launch) {
  RunThreads<ReduceParameters>(parameters, launch,
                               [](const ReduceParameters& of, const Worker& worker) {
                                 Waiting waiting;
                                 MergeSources<E, Op, Out>(of, worker, waiting);
                               });
}

template <typename E>
void SumSquares(const void* given, const TwinLaunch& launch) {
  const auto& parameters = *static_cast<const SquaresParameters*>(given);
  for (uint64_t block = FirstBlock(parameters) + launch.part; block < EndBlock(parameters);
       block += launch.parts) {
    Packet<double, kTeamPartials<E>> members[kTeamThreads<E>];
    for (int member = 0; member < kTeamThreads<E>; ++member)
      members[member] = PartialsOf<E>(parameters, block, member);
    const double sum = FoldPartials<kTeamPartials<E>>(members);
    AddToWords(sum, [&](int word, int64_t part) { parameters.words[word] += part; });
    if (IsFinite(sum)) continue;
    for (int member = 0; member < kTeamThreads<E>; ++member)
      parameters.words[kExactWords] += NonfiniteOf<E>(parameters, block, member);
  }
}

#define WEFT_MERGE_TWIN(name, E, Op, Out) \
  {"merge", #name, sizeof(ReduceParameters), Merge<E, Op, Out>},
#define WEFT_LOCATED_TWIN(name, E, kMinimum)                                       \
  {"located", #name, sizeof(ReduceParameters),                                     \
   [](const void* parameters, const TwinLaunch& launch) {                          \
     RunThreads<ReduceParameters>(parameters, launch, LocateSources<E, kMinimum>); \
   }},
#define WEFT_CAST_TWIN(name, In, Out)                                                            \
  {"copy", #name, sizeof(CastParameters), [](const void* parameters, const TwinLaunch& launch) { \
     RunThreads<CastParameters>(parameters, launch, CastElements<In, Out>);                      \
   }},
#define WEFT_SQUARES_TWIN(name, E) {"squares", #name, sizeof(SquaresParameters), SumSquares<E>},

#define WEFT_PLAIN_TWIN(image, name, Parameters, Body)                                     \
  {image, name, sizeof(Parameters), [](const void* parameters, const TwinLaunch& launch) { \
     RunThreads<Parameters>(parameters, launch,                                            \
                            [](const Parameters& of, const Worker& by) { Body(of, by); }); \
   }},

constexpr TwinEntry kTwins[] = {
    WEFT_MERGE_KERNELS(WEFT_MERGE_TWIN) WEFT_LOCATED_KERNELS(WEFT_LOCATED_TWIN)
        WEFT_CAST_KERNELS(WEFT_CAST_TWIN) WEFT_SQUARES_KERNELS(WEFT_SQUARES_TWIN)
            WEFT_PLAIN_TWIN("copy", "weft_gather", PiecesParameters, MovePieces<true>)
                WEFT_PLAIN_TWIN("copy", "weft_scatter", PiecesParameters, MovePieces<false>)
                    WEFT_PLAIN_TWIN("copy", "weft_fill", FillParameters, FillBytes) WEFT_PLAIN_TWIN(
                        "digest", "weft_digest_chunks", ChunksParameters, DigestChunks)
                        WEFT_PLAIN_TWIN("digest", "weft_digest_parents", ParentsParameters,
                                        DigestParents)};

}  // namespace

TwinPart OtherTwins() {
  return {kTwins, std::size(kTwins)};
}

}  // namespace weft::test
