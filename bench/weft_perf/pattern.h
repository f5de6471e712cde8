// Inputs whose reduction is exact, and the check of results against it.
//
// Sums and products are built so that every partial result, in any order, is a value of the element
// type: results must agree to the bit. Only the average of a floating type may differ by 2 units in
// the last place. Values repeat with a prime period of elements, so that a result shifted by any
// power of two is wrong nearly everywhere, yet filling and checking run at the speed of memory.
// --repro takes inputs of the opposite kind (values.h).
//
//   Pattern input = Pattern::Input(data, rank);
//   input.Fill(send, 0, count);
//   wrong += Pattern::Reduced(data).CountWrong(recv, 0, count);
//
// Thread-safety: immutable after construction.
#ifndef WEFT_BENCH_WEFT_PERF_PATTERN_H_
#define WEFT_BENCH_WEFT_PERF_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/values.h"

namespace weft::perf {

class Pattern {
 public:
  static constexpr size_t kPeriod = 16381;  // prime

  // What `rank` contributes.
  static Pattern Input(const DataKey& key, size_t rank);
  // The reduction of the ranks' contributions; key.reduction must be set.
  static Pattern Reduced(const DataKey& key);
  // What `rank` contributes where the order of additions is to show in the result.
  static Pattern OrderSensitive(const DataKey& key, size_t rank);

  // Writes elements [first, first + count) of the endless pattern.
  void Fill(void* out, size_t first, size_t count) const;
  // How many of `count` elements at `data` differ from elements [first, first + count).
  size_t CountWrong(const void* data, size_t first, size_t count) const;

 private:
  // bits_at(i): the bits of element i.
  template <typename Bits>
  Pattern(const DataKey& key, uint64_t tolerance, const Bits& bits_at);
  bool Close(const unsigned char* have, const unsigned char* want) const;

  const ElementType& type_;
  uint64_t tolerance_;  // units in the last place
  std::vector<unsigned char> bytes_;
};

// A byte that stands where an operation must not write, and how many of `size` bytes changed.
inline constexpr unsigned char kCanary = 0xA5;
size_t CountChangedCanaries(const void* data, size_t size);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_PATTERN_H_
