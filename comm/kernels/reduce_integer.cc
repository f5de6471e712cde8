// The integer kernels of one instruction set.
// Sums and products are formed on unsigned types, where wrapping is defined and the same bits.
#include "comm/kernels/reduce_isa.h"
#include "comm/kernels/reduce_tree.h"

namespace weft {
namespace {

// Divides `count` elements in place, toward zero. Wide is int64_t or uint64_t.
template <typename T, typename Wide>
void DivideElements(char* elements, size_t count, Wide divisor) {
  for (size_t i = 0; i < count; ++i) {
    const Wide quotient = static_cast<Wide>(LoadAs<T>(elements + i * sizeof(T))) / divisor;
    StoreAs(elements + i * sizeof(T), static_cast<T>(quotient));
  }
}

// No instruction set divides integers; tile by tile the wrapped sum is formed in the cache, divided
// element by element, and copied out.
template <typename T, typename Wide, typename SumLanes>
void AverageIntegers(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.divisor > 0);
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  constexpr size_t kTileBytes = 1024;
  constexpr size_t kTileCount = kTileBytes / sizeof(T);
  alignas(64) char tile[kTileBytes];
  void* const tile_pointer = tile;
  const void* sources[kSourcesMax];
  for (size_t done = 0; done < arguments.count; done += kTileCount) {
    const size_t left = arguments.count - done;
    const size_t count = left < kTileCount ? left : kTileCount;
    const size_t offset = done * sizeof(T);
    for (int s = 0; s < arguments.source_count; ++s) {
      sources[s] = static_cast<const char*>(arguments.sources[s]) + offset;
    }
    ReduceSources<SumLanes, Sum>({sources, arguments.source_count, &tile_pointer, 1, count, 0}, 0);
    DivideElements<T, Wide>(tile, count, static_cast<Wide>(arguments.divisor));
    for (int d = 0; d < arguments.destination_count; ++d) {
      char* destination = static_cast<char*>(arguments.destinations[d]) + offset;
      __builtin_memcpy(destination, tile, count * sizeof(T));
    }
  }
}

template <typename T, typename Unsigned, typename Wide>
ReduceKernel FindIntegerOp(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
      return Reduce<Integers<Unsigned>, Sum>;
    case WEFT_PROD:
      return Reduce<Integers<Unsigned>, Product>;
    case WEFT_MAX:
      return Reduce<Integers<T>, Maximum>;
    case WEFT_MIN:
      return Reduce<Integers<T>, Minimum>;
    case WEFT_AVG:
      return AverageIntegers<T, Wide, Integers<Unsigned>>;
    default:
      return nullptr;
  }
}

}  // namespace

template <>
ReduceKernel FindIntegerKernel<kKernelIsa>(weft_dtype_t dtype, weft_op_t op) {
  switch (dtype) {
    case WEFT_INT8:
      return FindIntegerOp<int8_t, uint8_t, int64_t>(op);
    case WEFT_UINT8:
      return FindIntegerOp<uint8_t, uint8_t, uint64_t>(op);
    case WEFT_INT32:
      return FindIntegerOp<int32_t, uint32_t, int64_t>(op);
    case WEFT_UINT32:
      return FindIntegerOp<uint32_t, uint32_t, uint64_t>(op);
    case WEFT_INT64:
      return FindIntegerOp<int64_t, uint64_t, int64_t>(op);
    case WEFT_UINT64:
      return FindIntegerOp<uint64_t, uint64_t, uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace weft
