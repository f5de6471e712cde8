// ReduceStage::kLast of float8, float16 and bfloat16 of one instruction set: float32 is summed, and rounded to the type.
//
// Tile by tile, float32's own kernel sums and divides into the cache, and a loop per type rounds from there: one
// loop instead of a tree for each type, operation and count of sources.
#include "comm/kernels/lanes_accumulators.h"
#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

constexpr size_t kTileCount = 1024;
// For the last vector, which is rounded as a whole.
constexpr size_t kTileMargin = 64;

// The vector at `from`, rounded.
template <typename Lanes>
WEFT_INLINE typename Lanes::Raw Rounded(const char* from) {
  return Lanes::Pack(FromMemory<Lanes>(LoadRegisters<Lanes>(from)));
}

// Rounds `count` float32 and stores them in all destinations from `offset` on. Behind them `tile` has room for a vector.
template <typename Lanes>
[[gnu::noinline]] void RoundTile(char* tile, size_t count, const ReduceArguments& arguments,
                                 size_t offset) {
  void* const* destinations = arguments.destinations;
  char* const first = static_cast<char*>(destinations[0]) + offset;
  const int destination_count = arguments.destination_count;
  const size_t vectors_end = count / Lanes::kWidth * Lanes::kWidth;
  for (size_t done = 0; done < vectors_end; done += Lanes::kWidth) {
    const auto raw = Rounded<Lanes>(tile + done * sizeof(float));
    StoreAs(first + done * Lanes::kElementBytes, raw);
    if (__builtin_expect(destination_count > 1, 0)) {
      for (int d = 1; d < destination_count; ++d) {
        char* const destination = static_cast<char*>(destinations[d]) + offset;
        StoreAs(destination + done * Lanes::kElementBytes, raw);
      }
    }
  }
  if constexpr (Lanes::kWidth > 1) {
    if (vectors_end == count) return;
    StoreRegisters<Lanes>(tile + count * sizeof(float), typename Lanes::Value{});
    StoreParts<Lanes>(arguments, Rounded<Lanes>(tile + vectors_end * sizeof(float)),
                      offset + vectors_end * Lanes::kElementBytes,
                      (count - vectors_end) * Lanes::kElementBytes);
  }
}

template <typename Lanes>
[[gnu::noinline]] void RoundSums(const ReduceArguments& arguments, ReduceKernel sum) {
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  const DefaultRounding rounding;
  alignas(64) float tile[kTileCount + kTileMargin];
  void* const tile_pointer = tile;
  const void* sources[kSourcesMax];
  ReduceArguments part{sources, arguments.source_count, &tile_pointer, 1, 0, arguments.divisor};
  part.merges = arguments.merges;
  for (size_t done = 0; done < arguments.count; done += kTileCount) {
    for (int s = 0; s < arguments.source_count; ++s)
      sources[s] = static_cast<const char*>(arguments.sources[s]) + done * sizeof(float);
    const size_t left = arguments.count - done;
    part.count = left < kTileCount ? left : kTileCount;
    sum(part);
    RoundTile<Lanes>(static_cast<char*>(tile_pointer), part.count, arguments,
                     done * Lanes::kElementBytes);
  }
}

// A ReduceKernel.
template <typename Lanes, weft_op_t kOp>
void SumAndRound(const ReduceArguments& arguments) {
  RoundSums<Lanes>(arguments, FindMergesKernel<kKernelIsa>(WEFT_FLOAT32, kOp));
}

template <typename Lanes>
ReduceKernel FindRoundOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
      return SumAndRound<Lanes, WEFT_SUM>;
    case WEFT_PROD:
      return SumAndRound<Lanes, WEFT_PROD>;
    case WEFT_AVG:
      return SumAndRound<Lanes, WEFT_AVG>;
    default:
      return nullptr;
  }
}

}  // namespace

template <>
ReduceKernel FindLastKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_FLOAT16:
      return FindRoundOp<HalfLanes<kWidth<float>>>(op);
    case WEFT_BFLOAT16:
      return FindRoundOp<BfloatLanes<kRegisterBytes / 4>>(op);
    case WEFT_FLOAT8_E4M3:
      return FindRoundOp<Float8Lanes<E4m3, kRegisterBytes / 4, false>>(op);
    case WEFT_FLOAT8_E5M2:
      return FindRoundOp<Float8Lanes<E5m2, kRegisterBytes / 4, false>>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
