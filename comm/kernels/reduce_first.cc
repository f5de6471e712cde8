// ReduceStage::kFirst of float8, float16 and bfloat16 of one instruction set: sums that end as float32.
#include "comm/kernels/dtype.h"
#include "comm/kernels/lanes_accumulators.h"
#include "comm/kernels/lanes_float8.h"
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

// The elements from `done` on, fewer than a vector.
template <typename Lanes, typename Op>
[[gnu::noinline]] void AccumulatePart(const ReduceArguments& arguments, size_t done) {
  const size_t count = arguments.count - done;
  const Leaves<Extent::kPart> leaves{arguments.sources, arguments.factors,
                                     count * Lanes::kElementBytes};
  const auto value = Grove<Lanes, Op>(leaves, arguments.source_count, done * Lanes::kElementBytes);
  alignas(64) char whole[Lanes::kWidth * sizeof(float)];
  StoreRegisters<Lanes>(whole, ToMemory<Lanes>(value));
  for (int d = 0; d < arguments.destination_count; ++d) {
    __builtin_memcpy(static_cast<char*>(arguments.destinations[d]) + done * sizeof(float), whole,
                     count * sizeof(float));
  }
}

// All elements; as ReduceElements, whose comments hold here.
template <typename Lanes, typename Op, int kCount>
[[gnu::noinline]] void AccumulateElements(const ReduceArguments& arguments) {
  constexpr int kUnrolledSourcesMax = 8;
  const void* local[kUnrolledSourcesMax];
#pragma GCC unroll 8
  for (int s = 0; s < kCount; ++s)
    local[s] = arguments.sources[s];
  Leaves<Extent::kWhole> leaves{local, arguments.factors, 0};
  if constexpr (kCount == 0) leaves.sources = arguments.sources;
  void* const* destinations = arguments.destinations;
  char* const first = static_cast<char*>(destinations[0]);
  const int source_count = arguments.source_count;
  const int destination_count = arguments.destination_count;

  const size_t vectors_end = arguments.count / Lanes::kWidth * Lanes::kWidth;
  for (size_t done = 0; done < vectors_end; done += Lanes::kWidth) {
    typename Lanes::Value value;
    if constexpr (kCount == 0) {
      value = Grove<Lanes, Op>(leaves, source_count, done * Lanes::kElementBytes);
    } else {
      value = Tree<Lanes, Op, kCount>(leaves, done * Lanes::kElementBytes);
    }
    const auto accumulators = ToMemory<Lanes>(value);
    StoreRegisters<Lanes>(first + done * sizeof(float), accumulators);
    if (__builtin_expect(destination_count > 1, 0)) {
      for (int d = 1; d < destination_count; ++d)
        StoreRegisters<Lanes>(static_cast<char*>(destinations[d]) + done * sizeof(float),
                              accumulators);
    }
  }
  if constexpr (Lanes::kWidth > 1) {
    if (vectors_end < arguments.count) AccumulatePart<Lanes, Op>(arguments, vectors_end);
  }
}

// A ReduceKernel. Unrolled trees only for sums, of the counts that are common; one source is a rank's
// contribution that is a piece by itself.
template <typename Lanes, typename Op>
void Accumulate(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  if constexpr (Op::kScaled) WEFT_CHECK(arguments.factors != nullptr);
  const DefaultRounding rounding;
  if constexpr (Op::kEveryCount && Lanes::kWidth > 1) {
    switch (arguments.source_count) {
      case 1:
        return AccumulateElements<Lanes, Op, 1>(arguments);
      case 2:
        return AccumulateElements<Lanes, Op, 2>(arguments);
      case 4:
        return AccumulateElements<Lanes, Op, 4>(arguments);
      case 8:
        return AccumulateElements<Lanes, Op, 8>(arguments);
      default:
        break;
    }
  }
  AccumulateElements<Lanes, Op, 0>(arguments);
}

// SumLanes are for what is linear.
template <typename SumLanes, typename Lanes>
ReduceKernel FindAccumulateOp(weft_op_t op) {
  switch (static_cast<int>(op)) {
    case WEFT_SUM:
      return Accumulate<SumLanes, Sum>;
    case WEFT_PROD:
      return Accumulate<Lanes, Product>;
    case kOpPremulSum:
      return Accumulate<Lanes, ScaledSum>;
    default:
      return nullptr;
  }
}

template <typename Format>
ReduceKernel FindAccumulateFloat8(weft_op_t op) {
  constexpr int kWords = kRegisterBytes / 4;
  return FindAccumulateOp<Float8Lanes<Format, kWords, true>, Float8Lanes<Format, kWords, false>>(
      op);
}

}  // namespace

template <>
ReduceKernel FindFirstKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  using Halves = HalfLanes<kWidth<float>>;
  using Bfloats = BfloatLanes<kRegisterBytes / 4>;
  switch (dtype) {
    case WEFT_FLOAT16:
      return FindAccumulateOp<Halves, Halves>(op);
    case WEFT_BFLOAT16:
      return FindAccumulateOp<Bfloats, Bfloats>(op);
    case WEFT_FLOAT8_E4M3:
      return FindAccumulateFloat8<E4m3>(op);
    case WEFT_FLOAT8_E5M2:
      return FindAccumulateFloat8<E5m2>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
