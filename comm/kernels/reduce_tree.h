// The loops of a reduction: the canonical tree over the sources, one block of elements after another.
//
// Invariants:
// 1. Every element of the result is the same expression of the sources' elements, whatever its
//    position: Tree<n> for up to eight sources, and Grove for more, which forms the same tree.
// 2. All sources of a block are loaded before its first store, so a destination may be a source.
// 3. Nothing outside [0, count) of any pointer is read or written: what does not fill a vector is
//    loaded and stored in part (partial_vector.h).
//
// Internal linkage throughout, see lanes.h. Thread-safety: pure functions.
#pragma once

#include "base/check.h"
#include "comm/kernels/default_rounding.h"
#include "comm/kernels/isa.h"
#include "comm/kernels/lanes.h"
#include "comm/kernels/partial_vector.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {
namespace {

constexpr int LargestPowerBelow(int count) {
  int power = 1;
  while (power * 2 < count)
    power *= 2;
  return power;
}

// How much of a block memory has: all of it, the first bytes, or as few of them as IsFew says.
enum class Extent { kWhole, kPart, kFew };

// Where a block's elements come from. `factors` is read only by operations with kScaled.
template <Extent kExtent>
struct Leaves {
  static constexpr bool kWhole = kExtent == Extent::kWhole;
  const void* const* sources;
  const uint64_t* factors;
  size_t bytes;  // unless the block is whole

  template <bool kScaled>
  WEFT_INLINE Leaves From(int first) const {
    return {sources + first, kScaled ? factors + first : nullptr, bytes};
  }

  template <typename Raw>
  WEFT_INLINE Raw LoadRaw(const char* from) const {
    if constexpr (kWhole) {
      return LoadAs<Raw>(from);
    } else if constexpr (kExtent == Extent::kPart) {
      return LoadPart<Raw>(from, bytes);
    } else {
      return LoadFew<Raw>(from, bytes);
    }
  }

  template <typename Lanes, typename Op>
  WEFT_INLINE typename Lanes::Value Load(size_t offset) const {
    const char* const from = static_cast<const char*>(sources[0]) + offset;
    const auto value = Lanes::Unpack(LoadRaw<typename Lanes::Raw>(from));
    if constexpr (Op::kScaled) return Lanes::Scale(value, factors[0]);
    return value;
  }
};

// The balanced tree over kCount sources.
template <typename Lanes, typename Op, int kCount, typename Source>
WEFT_INLINE typename Lanes::Value Tree(Source leaves, size_t offset) {
  if constexpr (kCount == 1) {
    return leaves.template Load<Lanes, Op>(offset);
  } else {
    constexpr int kLeft = LargestPowerBelow(kCount);
    const auto left = Tree<Lanes, Op, kLeft>(leaves, offset);
    const auto right =
        Tree<Lanes, Op, kCount - kLeft>(leaves.template From<Op::kScaled>(kLeft), offset);
    return Lanes::template Combine<Op>(left, right);
  }
}

// The balanced tree over any number of sources, as a binary counter: trees[k] is a finished tree over
// 2^k sources that waits for its right half. What is left at the end joins from the right.
template <typename Lanes, typename Op, typename Source>
WEFT_INLINE typename Lanes::Value Grove(Source leaves, int count, size_t offset) {
  constexpr int kLevels = 7;  // 2^6 is kSourcesMax
  static_assert(kSourcesMax < 1 << kLevels);
  typename Lanes::Value trees[kLevels];
  int done = 0;
  if constexpr (Source::kWhole) {  // parts are not worth the code
    for (; done + 8 <= count; done += 8) {
      auto tree = Tree<Lanes, Op, 8>(leaves.template From<Op::kScaled>(done), offset);
      int level = 3;
      for (; done >> level & 1; ++level)
        tree = Lanes::template Combine<Op>(trees[level], tree);
      trees[level] = tree;
    }
  }
  for (; done < count; ++done) {
    auto tree = Tree<Lanes, Op, 1>(leaves.template From<Op::kScaled>(done), offset);
    int level = 0;
    for (; done >> level & 1; ++level)
      tree = Lanes::template Combine<Op>(trees[level], tree);
    trees[level] = tree;
  }
  int level = __builtin_ctz(static_cast<unsigned>(count));
  auto result = trees[level];
  for (++level; count >> level != 0; ++level) {
    if (count >> level & 1) result = Lanes::template Combine<Op>(trees[level], result);
  }
  return result;
}

template <typename Lanes>
WEFT_INLINE typename Lanes::Value DivideIf(typename Lanes::Value value, int64_t divisor) {
  if constexpr (requires { Lanes::Divide(value, typename Lanes::Scalar{}); }) {
    if (__builtin_expect(divisor != 0, 0))
      return Lanes::Divide(value, static_cast<typename Lanes::Scalar>(divisor));
  }
  return value;
}

template <typename Lanes, typename Op, typename Source>
WEFT_INLINE typename Lanes::Value OneOrTwo(Source leaves, int count, size_t offset) {
  const auto first = leaves.template Load<Lanes, Op>(offset);
  if (count == 1) return first;
  const auto second = leaves.template From<Op::kScaled>(1).template Load<Lanes, Op>(offset);
  return Lanes::template Combine<Op>(first, second);
}

template <typename Lanes>
WEFT_INLINE void StoreParts(const ReduceArguments& arguments, typename Lanes::Raw raw,
                            size_t offset, size_t bytes) {
  for (int d = 0; d < arguments.destination_count; ++d)
    StorePart(static_cast<char*>(arguments.destinations[d]) + offset, raw, bytes);
}

// Apart from ReducePart, which needs no room for the waiting trees.
template <typename Lanes, typename Op>
[[gnu::noinline]] void ReducePartOfMany(const ReduceArguments& arguments, int64_t divisor,
                                        size_t offset, size_t bytes) {
  const Leaves<Extent::kPart> leaves{arguments.sources, arguments.factors, bytes};
  const auto value = Grove<Lanes, Op>(leaves, arguments.source_count, offset);
  StoreParts<Lanes>(arguments, Lanes::Pack(DivideIf<Lanes>(value, divisor)), offset, bytes);
}

// The elements from `done` on, fewer than a vector.
template <typename Lanes, typename Op>
[[gnu::noinline]] void ReducePart(const ReduceArguments& arguments, int64_t divisor, size_t done) {
  const size_t offset = done * Lanes::kElementBytes;
  const size_t bytes = (arguments.count - done) * Lanes::kElementBytes;
  if (arguments.source_count > 2) {
    return ReducePartOfMany<Lanes, Op>(arguments, divisor, offset, bytes);
  }
  const Leaves<Extent::kPart> leaves{arguments.sources, arguments.factors, bytes};
  const auto value = OneOrTwo<Lanes, Op>(leaves, arguments.source_count, offset);
  StoreParts<Lanes>(arguments, Lanes::Pack(DivideIf<Lanes>(value, divisor)), offset, bytes);
}

// All elements; `divisor` is 0 or divides the accumulators of floats. kCount 0: any source_count.
// What the loop needs is copied out of `arguments`, which a store could change for all that the
// compiler knows. What is expected makes the plain loop free of jumps: with AVX2 two jumps in each
// iteration took half of its time. Not inlined: calls of a few elements need not save what these loops need.
template <typename Lanes, typename Op, int kCount>
[[gnu::noinline]] void ReduceElements(const ReduceArguments& arguments, int64_t divisor) {
  constexpr size_t kVectorBytes = size_t{Lanes::kWidth} * Lanes::kElementBytes;
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

  const size_t bytes = arguments.count / Lanes::kWidth * kVectorBytes;
  for (size_t offset = 0; offset < bytes; offset += kVectorBytes) {
    typename Lanes::Value value;
    if constexpr (kCount == 0) {
      value = Grove<Lanes, Op>(leaves, source_count, offset);
    } else {
      value = Tree<Lanes, Op, kCount>(leaves, offset);
    }
    const auto raw = Lanes::Pack(DivideIf<Lanes>(value, divisor));
    StoreAs(first + offset, raw);
    if (__builtin_expect(destination_count > 1, 0)) {
      for (int d = 1; d < destination_count; ++d)
        StoreAs(static_cast<char*>(destinations[d]) + offset, raw);
    }
  }
  if constexpr (Lanes::kWidth > 1) {
    const size_t done = bytes / kVectorBytes * Lanes::kWidth;
    if (done < arguments.count) ReducePart<Lanes, Op>(arguments, divisor, done);
  }
}

// Two sources into two destinations, which is what two ranks do in each other's memory: as ReduceElements,
// but without a loop over the destinations, whose jumps cost time while the caches keep up.
template <typename Lanes, typename Op>
[[gnu::noinline]] void ReduceTwoIntoTwo(const ReduceArguments& arguments) {
  constexpr size_t kVectorBytes = size_t{Lanes::kWidth} * Lanes::kElementBytes;
  const void* const local[] = {arguments.sources[0], arguments.sources[1]};
  const Leaves<Extent::kWhole> leaves{local, arguments.factors, 0};
  char* const first = static_cast<char*>(arguments.destinations[0]);
  char* const second = static_cast<char*>(arguments.destinations[1]);
  const size_t bytes = arguments.count / Lanes::kWidth * kVectorBytes;
  for (size_t offset = 0; offset < bytes; offset += kVectorBytes) {
    const auto raw = Lanes::Pack(Tree<Lanes, Op, 2>(leaves, offset));
    StoreAs(first + offset, raw);
    StoreAs(second + offset, raw);
  }
  const size_t done = bytes / kVectorBytes * Lanes::kWidth;
  if (done < arguments.count) ReducePart<Lanes, Op>(arguments, 0, done);
}

// All elements, by an unrolled tree if there are so many sources as one of `kCounts`.
template <typename Lanes, typename Op, int... kCounts>
WEFT_INLINE void ReduceCounts(const ReduceArguments& arguments, int64_t divisor) {
  const bool unrolled = ((arguments.source_count == kCounts &&
                          (ReduceElements<Lanes, Op, kCounts>(arguments, divisor), true)) ||
                         ...);
  if (!unrolled) ReduceElements<Lanes, Op, 0>(arguments, divisor);
}

// The choice of the unrolled tree. Sums are worth one for each count up to eight; other operations,
// and plain C++, for the counts that are common: each costs a kilobyte and a hundredth of a second to
// compile, for each type and instruction set.
template <typename Lanes, typename Op>
[[gnu::noinline]] void ReduceAny(const ReduceArguments& arguments, int64_t divisor) {
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  if constexpr (Lanes::kWidth > 1) {
    if (arguments.count < Lanes::kWidth) {
      if (arguments.count != 0) ReducePart<Lanes, Op>(arguments, divisor, 0);
      return;
    }
  }
  if constexpr (Op::kEveryCount && Lanes::kWidth > 1) {
    if (arguments.source_count == 2 && arguments.destination_count == 2 && divisor == 0) {
      return ReduceTwoIntoTwo<Lanes, Op>(arguments);
    }
  }
  if constexpr (Op::kEveryCount && Lanes::kWidth > 1) {
    ReduceCounts<Lanes, Op, 2, 4, 8, 1, 3, 5, 6, 7>(arguments, divisor);
  } else {
    ReduceCounts<Lanes, Op, 2, 4, 8>(arguments, divisor);
  }
}

// All of a reduction. The sum of an element or two of one or two sources, which is what the smallest
// calls are and whose time is instructions, is formed right here, without a call.
template <typename Lanes, typename Op>
WEFT_INLINE void ReduceSources(const ReduceArguments& arguments, int64_t divisor) {
  if constexpr (Op::kEveryCount && Lanes::kWidth > 1) {
    const size_t bytes = arguments.count * Lanes::kElementBytes;
    if (IsFew(bytes) && (arguments.source_count == 1 || arguments.source_count == 2)) {
      const Leaves<Extent::kFew> leaves{arguments.sources, arguments.factors, bytes};
      const auto value = OneOrTwo<Lanes, Op>(leaves, arguments.source_count, 0);
      const auto raw = Lanes::Pack(DivideIf<Lanes>(value, divisor));
      for (int d = 0; d < arguments.destination_count; ++d)
        StoreFew(static_cast<char*>(arguments.destinations[d]), raw, bytes);
      return;
    }
  }
  ReduceAny<Lanes, Op>(arguments, divisor);
}

// A ReduceKernel.
template <typename Lanes, typename Op>
void Reduce(const ReduceArguments& arguments) {
  if constexpr (Op::kScaled) WEFT_CHECK(arguments.factors != nullptr);
  if constexpr (Lanes::kFloating) {
    const DefaultRounding rounding;
    ReduceSources<Lanes, Op>(arguments, 0);
  } else {
    ReduceSources<Lanes, Op>(arguments, 0);
  }
}

// A ReduceKernel: the average of floats.
template <typename Lanes, typename Op>
void AverageFloats(const ReduceArguments& arguments) {
  WEFT_CHECK(arguments.divisor > 0);
  const DefaultRounding rounding;
  ReduceSources<Lanes, Op>(arguments, arguments.divisor);
}

// How many elements a register has, and a register of integers.
template <typename T>
constexpr int kWidth = kRegisterBytes == 0 ? 1 : kRegisterBytes / int{sizeof(T)};
template <typename T>
using Integers = IntegerLanes<T, kWidth<T>>;

}  // namespace
}  // namespace weft
