// The sums, products and averages of float32 and float64 of one instruction set along any binary tree, as
// ReduceArguments::merges describes it: a stack machine that pushes the sources in turn.
//
// A tree is followed once for several vectors side by side, so that its loops, whose jumps no CPU foresees
// as well as those of an unrolled tree, are spread over them.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

// What the loops rely on: that no result is missing, and that one is left.
void CheckMerges(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  int results = 0;
  for (int s = 0; s < arguments.source_count; ++s) {
    results += 1 - arguments.merges[s];
    WEFT_CHECK(results >= 1);
  }
  WEFT_CHECK(results == 1);
}

template <typename Lanes>
constexpr size_t kVectorBytes = size_t{Lanes::kWidth} * Lanes::kElementBytes;

// The tree over kVectors vectors side by side at `offset` of all sources. If it leans to the right, all results but
// one wait.
template <typename Lanes, typename Op, int kVectors, typename Source>
WEFT_INLINE void MergeVectors(Source leaves, const ReduceArguments& arguments, size_t offset,
                              typename Lanes::Value (&result)[kVectors]) {
  typename Lanes::Value waiting[kSourcesMax][kVectors];
  const int last = arguments.source_count - 1;
  const uint8_t* const merges = arguments.merges;
  int waiting_count = 0;
  for (int s = 0;; ++s) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      result[v] = leaves.template From<false>(s).template Load<Lanes, Op>(
          offset + static_cast<size_t>(v) * kVectorBytes<Lanes>);
    }
    for (int joins = merges[s]; joins != 0; --joins) {
      --waiting_count;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it has been set, says CheckMerges
        result[v] = Lanes::template Combine<Op>(waiting[waiting_count][v], result[v]);
      }
    }
    if (s == last) return;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      waiting[waiting_count][v] = result[v];
    ++waiting_count;
  }
}

// As many times kVectors vectors as there are from `offset` on; returns where they end.
template <typename Lanes, typename Op, int kVectors>
[[gnu::noinline]] size_t MergeWhole(const ReduceArguments& arguments, int64_t divisor,
                                    size_t offset) {
  constexpr size_t kStepBytes = kVectors * kVectorBytes<Lanes>;
  const Leaves<Extent::kWhole> leaves{arguments.sources, nullptr, 0};
  const size_t bytes = arguments.count * Lanes::kElementBytes;
  for (; offset + kStepBytes <= bytes; offset += kStepBytes) {
    typename Lanes::Value result[kVectors];
    MergeVectors<Lanes, Op, kVectors>(leaves, arguments, offset, result);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto raw = Lanes::Pack(DivideIf<Lanes>(result[v], divisor));
      const size_t at = offset + static_cast<size_t>(v) * kVectorBytes<Lanes>;
      for (int d = 0; d < arguments.destination_count; ++d)
        StoreAs(static_cast<char*>(arguments.destinations[d]) + at, raw);
    }
  }
  return offset;
}

template <typename Lanes, typename Op>
void MergeElements(const ReduceArguments& arguments, int64_t divisor) {
  const DefaultRounding rounding;
  size_t offset = MergeWhole<Lanes, Op, 4>(arguments, divisor, 0);
  offset = MergeWhole<Lanes, Op, 1>(arguments, divisor, offset);
  if constexpr (Lanes::kWidth > 1) {
    const size_t bytes = arguments.count * Lanes::kElementBytes - offset;
    if (bytes == 0) return;
    const Leaves<Extent::kPart> leaves{arguments.sources, nullptr, bytes};
    typename Lanes::Value result[1];
    MergeVectors<Lanes, Op, 1>(leaves, arguments, offset, result);
    StoreParts<Lanes>(arguments, Lanes::Pack(DivideIf<Lanes>(result[0], divisor)), offset, bytes);
  }
}

// A ReduceKernel.
template <weft_dtype_t kDtype, weft_op_t kOp, typename Lanes, typename Op>
void Merge(const ReduceArguments& arguments) {
  if (arguments.merges == nullptr) {
    return FindFloatKernel<kKernelIsa>(kDtype, kOp)(arguments);
  }
  CheckMerges(arguments);
  if constexpr (kOp == WEFT_AVG) WEFT_CHECK(arguments.divisor > 0);
  MergeElements<Lanes, Op>(arguments, kOp == WEFT_AVG ? arguments.divisor : 0);
}

template <weft_dtype_t kDtype, typename Lanes>
ReduceKernel FindMergesOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
      return Merge<kDtype, WEFT_SUM, Lanes, Sum>;
    case WEFT_PROD:
      return Merge<kDtype, WEFT_PROD, Lanes, Product>;
    case WEFT_AVG:
      return Merge<kDtype, WEFT_AVG, Lanes, Sum>;
    default:
      return nullptr;
  }
}

}  // namespace

template <>
ReduceKernel FindMergesKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_FLOAT32:
      return FindMergesOp<WEFT_FLOAT32, FloatLanes<kWidth<float>>>(op);
    case WEFT_FLOAT64:
      return FindMergesOp<WEFT_FLOAT64, DoubleLanes<kWidth<double>>>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
