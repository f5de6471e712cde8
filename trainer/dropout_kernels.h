// Dropout of a row, compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_DROPOUT_KERNELS_H_
#define WEFT_TRAINER_DROPOUT_KERNELS_H_

#include "trainer/dropout.h"
#include "trainer/ops_kernels.h"

namespace weft::trainer {
namespace {

// Mix of random.h, whose copy for one instruction set must not become that of all.
inline uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Row `row` of a mask's matrix; out may be x.
template <typename T>
void DropRow(const T* x, T* out, size_t count, const DropoutMask& mask, uint64_t row) {
  constexpr size_t kGroups = 16;
  constexpr size_t kElements = 4 * kGroups;
  const uint64_t key = MixBits(mask.key ^ MixBits(mask.first_row + row));
  const T scale = T(65536) / T(65536 - mask.threshold);
  for (size_t first = 0; first < count; first += kElements) {
    uint64_t bits[kGroups];
    for (size_t i = 0; i < kGroups; i++)
      bits[i] = MixBits(key + first / 4 + i);
    uint16_t lots[kElements];
    __builtin_memcpy(lots, bits, sizeof lots);
    const size_t part = count - first < kElements ? count - first : kElements;
    for (size_t i = 0; i < part; i++)
      out[first + i] = lots[i] < mask.threshold ? T(0) : x[first + i] * scale;
  }
}

template <typename T>
void DropMatrix(const T* x, T* out, size_t rows, size_t columns, const DropoutMask& mask) {
  ForRows(rows, columns,
          [&](size_t row) { DropRow(x + row * columns, out + row * columns, columns, mask, row); });
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DROPOUT_KERNELS_H_
