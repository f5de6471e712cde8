// Machines as tests invent them.
#pragma once

#include <cmath>
#include <random>

#include "comm/select/machine_model.h"

namespace weft::test {

// The measured AMD machine: streaming pays, across core complexes more than within one.
inline MachineModel ZenModel(double store_shared_ns = 28) {
  MachineModel model;
  model.store_shared_plain_line_ns = store_shared_ns;
  model.read_shared_plain_line_ns = store_shared_ns > 10 ? 3.7 : 1.5;
  model.l2_bytes = 1 << 20;
  model.l3_bytes = 32 << 20;
  return model;
}

// A sane model with times over as many powers of ten as can be.
inline MachineModel RandomModel(std::mt19937& random) {
  std::uniform_real_distribution<double> exponent(-3, 8.9);
  MachineModel model;
  for (const ModelField& field : ModelFields())
    model.*field.value = std::pow(10.0, exponent(random));
  model.l1_bytes = uint64_t{1024} << (random() % 20);
  model.l2_bytes = uint64_t{1024} << (random() % 30);
  model.l3_bytes = uint64_t{1024} << (random() % 31);
  model.cores = std::pow(10.0, std::uniform_real_distribution<double>(-2, 3)(random));
  return model;
}

}  // namespace weft::test
