#include "trainer/dropout.h"

#include <algorithm>
#include <cmath>

#include "trainer/random.h"

namespace weft::trainer {

Dropout::Dropout(double probability, uint64_t seed, size_t step, size_t first_sequence)
    : key_(Mix(Mix(seed ^ 0x64726f706f7574u) + step)),
      first_sequence_(first_sequence),
      threshold_(uint32_t(std::clamp(std::lround(probability * 65536), 0l, 65535l))) {}

DropoutMask Dropout::At(size_t layer, DropoutSite site, size_t rows_per_sequence) const {
  return {Mix(key_ + 4 * layer + size_t(site)), first_sequence_ * rows_per_sequence, threshold_};
}

}  // namespace weft::trainer
