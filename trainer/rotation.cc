#include "trainer/rotation.h"

#include <cmath>

namespace weft::trainer {

size_t RotationCount(const ModelConfig& config) {
  return config.architecture == Architecture::kLlama ? config.seq * config.head_dim() : 0;
}

template <typename T>
std::vector<T> RotationTable(const ModelConfig& config) {
  std::vector<T> table(RotationCount(config));
  const size_t dim = config.head_dim(), half = dim / 2;
  for (size_t i = 0; i < table.size(); i++) {
    const size_t position = i / dim, pair = i % half;
    const double frequency = std::pow(config.rope_theta, -2 * double(pair) / double(dim));
    const double angle = double(position) * frequency;
    table[i] = T(i % dim < half ? std::cos(angle) : std::sin(angle));
  }
  return table;
}

template std::vector<float> RotationTable<float>(const ModelConfig&);
template std::vector<double> RotationTable<double>(const ModelConfig&);

}  // namespace weft::trainer
