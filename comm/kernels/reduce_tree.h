// The loops of a reduction: the canonical tree over the sources, one block of elements after another.
//
// Invariants:
// 1. Every element of the result is the same expression of the sources' elements, whatever its
//    position: Tree<n> for up to eight sources, and Grove for more, which forms the same tree.
// 2. All sources of a block are loaded before its first store, so a destination may be a source.
// 3. Nothing outside [0, count) of any pointer is read or written: what does not fill a vector goes
//    through padded copies.
//
// Internal linkage throughout, see lanes.h. Thread-safety: pure functions.
#pragma once

#include "base/check.h"
#include "comm/kernels/lanes.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {
namespace {

// Sets the floating-point environment that the numbers contract assumes, for a scope: to nearest,
// denormals kept, nothing trapped. Threads of foreign programs run with others: -ffast-math sets
// flush-to-zero for a whole process.
class DefaultRounding {
 public:
#if defined(__SSE2__)
  DefaultRounding() : saved_(__builtin_ia32_stmxcsr()) {
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(kDefault);
    asm volatile("" ::: "memory");  // no load, hence no arithmetic, moves above this
  }

  ~DefaultRounding() {
    asm volatile("" ::: "memory");
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(saved_);
  }
#else
  DefaultRounding() = default;
#endif

  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

#if defined(__SSE2__)
 private:
  static constexpr uint32_t kControlBits = 0xffc0;  // all but the sticky flags
  static constexpr uint32_t kDefault = 0x1f80;      // all exceptions masked
  uint32_t saved_;
#endif
};

constexpr int LargestPowerBelow(int count) {
  int power = 1;
  while (power * 2 < count)
    power *= 2;
  return power;
}

// Lanes that take only some elements of a block at a time, see lanes_float8.h.
template <typename Lanes>
constexpr bool kInTurns = requires {
  Lanes::kTurns;
};

// Where a block's elements come from. `factors` is read only by operations with kScaled, `turn` only
// by lanes in turns.
struct Leaves {
  const void* const* sources;
  const uint64_t* factors;
  int turn;

  template <bool kScaled>
  WEFT_INLINE Leaves From(int first) const {
    return {sources + first, kScaled ? factors + first : nullptr, turn};
  }

  template <typename Lanes, typename Op>
  WEFT_INLINE typename Lanes::Value Load(size_t offset) const {
    const char* const from = static_cast<const char*>(sources[0]) + offset;
    typename Lanes::Value value;
    if constexpr (kInTurns<Lanes>) {
      value = Lanes::Load(from, turn);
    } else {
      value = Lanes::Load(from);
    }
    if constexpr (Op::kScaled) value = Lanes::Scale(value, factors[0]);
    return value;
  }
};

// The balanced tree over kCount sources.
template <typename Lanes, typename Op, int kCount>
WEFT_INLINE typename Lanes::Value Tree(Leaves leaves, size_t offset) {
  if constexpr (kCount == 1) {
    return leaves.Load<Lanes, Op>(offset);
  } else {
    constexpr int kLeft = LargestPowerBelow(kCount);
    const auto left = Tree<Lanes, Op, kLeft>(leaves, offset);
    const auto right = Tree<Lanes, Op, kCount - kLeft>(leaves.From<Op::kScaled>(kLeft), offset);
    return Lanes::template Combine<Op>(left, right);
  }
}

// The balanced tree over any number of sources, as a binary counter: trees[k] is a finished tree over
// 2^k sources that waits for its right half. What is left at the end joins from the right.
template <typename Lanes, typename Op>
WEFT_INLINE typename Lanes::Value Grove(Leaves leaves, int count, size_t offset) {
  constexpr int kLevels = 7;  // 2^6 is kSourcesMax
  static_assert(kSourcesMax < 1 << kLevels);
  typename Lanes::Value trees[kLevels];
  int done = 0;
  for (; done + 8 <= count; done += 8) {
    auto tree = Tree<Lanes, Op, 8>(leaves.From<Op::kScaled>(done), offset);
    int level = 3;
    for (; done >> level & 1; ++level)
      tree = Lanes::template Combine<Op>(trees[level], tree);
    trees[level] = tree;
  }
  for (; done < count; ++done) {
    auto tree = Tree<Lanes, Op, 1>(leaves.From<Op::kScaled>(done), offset);
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
  if constexpr (Lanes::kFloating) {
    if (divisor != 0) return Lanes::Divide(value, static_cast<typename Lanes::Scalar>(divisor));
  }
  return value;
}

// What a block's elements, or those of one turn, are reduced to.
template <typename Lanes, typename Op, int kCount>
WEFT_INLINE typename Lanes::Value Reduced(Leaves leaves, int count, size_t offset,
                                          int64_t divisor) {
  if constexpr (kCount == 0) {
    return DivideIf<Lanes>(Grove<Lanes, Op>(leaves, count, offset), divisor);
  } else {
    return DivideIf<Lanes>(Tree<Lanes, Op, kCount>(leaves, offset), divisor);
  }
}

// A block's result as Lanes::Store takes it.
template <typename Lanes, typename Op, int kCount>
WEFT_INLINE auto Block(Leaves leaves, int count, size_t offset, int64_t divisor) {
  if constexpr (kInTurns<Lanes>) {
    typename Lanes::Packed packed{};
#pragma GCC unroll 1
    for (int turn = 0; turn < Lanes::kTurns; ++turn) {
      leaves.turn = turn;
      packed |= Lanes::Pack(Reduced<Lanes, Op, kCount>(leaves, count, offset, divisor), turn);
    }
    return packed;
  } else {
    return Reduced<Lanes, Op, kCount>(leaves, count, offset, divisor);
  }
}

// The elements from `done` on, fewer than a vector: padded with zeros to one, and reduced by `reduce`.
template <typename Lanes>
[[gnu::noinline]] void ReduceRest(const ReduceArguments& arguments, int64_t divisor, size_t done,
                                  void (*reduce)(const ReduceArguments&, int64_t)) {
  constexpr size_t kVectorBytes = size_t{Lanes::kWidth} * Lanes::kElementBytes;
  const size_t offset = done * Lanes::kElementBytes;
  const size_t bytes = (arguments.count - done) * Lanes::kElementBytes;
  alignas(64) char padded[kSourcesMax][kVectorBytes];
  const void* sources[kSourcesMax];
  for (int s = 0; s < arguments.source_count; ++s) {
    __builtin_memset(padded[s], 0, kVectorBytes);
    __builtin_memcpy(padded[s], static_cast<const char*>(arguments.sources[s]) + offset, bytes);
    sources[s] = padded[s];
  }
  void* const result = padded[0];
  reduce({sources, arguments.source_count, &result, 1, Lanes::kWidth, 0, arguments.factors},
         divisor);
  for (int d = 0; d < arguments.destination_count; ++d) {
    __builtin_memcpy(static_cast<char*>(arguments.destinations[d]) + offset, result, bytes);
  }
}

// All elements; `divisor` is 0 or divides the accumulators of floats. kCount 0: any source_count.
// What the loop needs is copied out of `arguments`, which a store could change for all that the
// compiler knows.
template <typename Lanes, typename Op, int kCount>
void ReduceElements(const ReduceArguments& arguments, int64_t divisor) {
  constexpr size_t kVectorBytes = size_t{Lanes::kWidth} * Lanes::kElementBytes;
  constexpr int kUnrolledSourcesMax = 8;
  const void* local[kUnrolledSourcesMax];
#pragma GCC unroll 8
  for (int s = 0; s < kCount; ++s)
    local[s] = arguments.sources[s];
  Leaves leaves{local, arguments.factors, 0};
  if constexpr (kCount == 0) leaves.sources = arguments.sources;
  void* const* destinations = arguments.destinations;
  char* const first = static_cast<char*>(destinations[0]);
  const int source_count = arguments.source_count;
  const int destination_count = arguments.destination_count;

  const size_t bytes = arguments.count / Lanes::kWidth * kVectorBytes;
  for (size_t offset = 0; offset < bytes; offset += kVectorBytes) {
    const auto value = Block<Lanes, Op, kCount>(leaves, source_count, offset, divisor);
    Lanes::Store(first + offset, value);
    for (int d = 1; d < destination_count; ++d) {
      Lanes::Store(static_cast<char*>(destinations[d]) + offset, value);
    }
  }
  if constexpr (Lanes::kWidth > 1) {
    const size_t done = bytes / Lanes::kElementBytes;
    if (done < arguments.count) {
      ReduceRest<Lanes>(arguments, divisor, done, ReduceElements<Lanes, Op, kCount>);
    }
  }
}

// The choice of the unrolled tree. Sums are worth one for each count up to eight; other operations,
// and plain C++, for the counts that are common: each costs a kilobyte and a hundredth of a second to
// compile, for each type and instruction set.
template <typename Lanes, typename Op>
void ReduceSources(const ReduceArguments& arguments, int64_t divisor) {
  WEFT_CHECK(arguments.source_count >= 1 && arguments.source_count <= kSourcesMax);
  WEFT_CHECK(arguments.destination_count >= 1 && arguments.destination_count <= kDestinationsMax);
  switch (arguments.source_count) {
    case 2:
      return ReduceElements<Lanes, Op, 2>(arguments, divisor);
    case 4:
      return ReduceElements<Lanes, Op, 4>(arguments, divisor);
    case 8:
      return ReduceElements<Lanes, Op, 8>(arguments, divisor);
    default:
      break;
  }
  if constexpr (Op::kEveryCount && Lanes::kWidth > 1) {
    switch (arguments.source_count) {
      case 1:
        return ReduceElements<Lanes, Op, 1>(arguments, divisor);
      case 3:
        return ReduceElements<Lanes, Op, 3>(arguments, divisor);
      case 5:
        return ReduceElements<Lanes, Op, 5>(arguments, divisor);
      case 6:
        return ReduceElements<Lanes, Op, 6>(arguments, divisor);
      case 7:
        return ReduceElements<Lanes, Op, 7>(arguments, divisor);
      default:
        break;
    }
  }
  ReduceElements<Lanes, Op, 0>(arguments, divisor);
}

}  // namespace
}  // namespace weft
