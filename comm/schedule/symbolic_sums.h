// Sums as expressions instead of numbers: what a unit of a buffer is made of, and in which order it was added.
//
//   SymbolicSums sums;
//   const SumId a = sums.Join(sums.Leaf(0), sums.Leaf(1));
//   WEFT_CHECK(a == sums.Join(sums.Leaf(0), sums.Leaf(1)));   // equal expressions have equal numbers
//
// Expressions are hash-consed: each exists once, so that comparing two trees of any size is comparing two numbers, and all buffers of
// all participants together need a vertex per different sum.
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft {

using SumId = int32_t;
inline constexpr SumId kNoSum = -1;  // what has not been written

class SymbolicSums {
 public:
  // The contribution number `leaf`.
  SumId Leaf(int32_t leaf);
  // left + right, operands in this order.
  SumId Join(SumId left, SumId right);
  // The result that a sum is rounded to.
  SumId Final(SumId sum);

  // values[0] + ... along a canonical tree, or along the one that `merges` describes; kNoSum if that is no tree of so many values.
  SumId Tree(std::span<const SumId> values, std::span<const uint8_t> merges);

  // True if `sum` is the Final of a sum of leaves 0 to count - 1, each once, in any order.
  bool HasEachOnce(SumId sum, int32_t count) const;

  // "final((0 + 1) + 2)"; long ones are cut off.
  std::string ToString(SumId sum) const;

 private:
  enum class Kind : uint8_t { kLeaf, kJoin, kFinal };

  struct Vertex {
    Kind kind;
    int32_t a;  // leaf, left or sum
    int32_t b;  // right
  };

  SumId Add(const Vertex& vertex);
  SumId CanonicalTree(std::span<const SumId> values);
  void Write(SumId sum, std::string* text) const;

  std::vector<Vertex> vertices_;
  std::unordered_map<uint64_t, SumId> joins_;
  std::unordered_map<int32_t, SumId> leaves_;
  std::unordered_map<SumId, SumId> finals_;
};

}  // namespace weft
