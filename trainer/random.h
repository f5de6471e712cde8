// Counter-based random numbers: a value depends on a key and an index, not on how many were drawn
// before, so ranks and runs agree without sharing a generator.
//
//   uint64_t key = Mix(seed);
//   double x = UniformAt(key, i);   // [0, 1)
#ifndef WEFT_TRAINER_RANDOM_H_
#define WEFT_TRAINER_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace weft::trainer {

// The finaliser of SplitMix64: a bijection that changes about half of the bits for any change.
inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t BitsAt(uint64_t key, uint64_t index) {
  return Mix(key ^ Mix(index));
}

inline double UniformAt(uint64_t key, uint64_t index) {
  return double(BitsAt(key, index) >> 11) * 0x1p-53;
}

// Standard normal, Box-Muller.
inline double NormalAt(uint64_t key, uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(1 - UniformAt(key, 2 * index)));
  return radius * std::cos(6.283185307179586 * UniformAt(key, 2 * index + 1));
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RANDOM_H_
