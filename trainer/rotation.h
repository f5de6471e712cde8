// Rotary positions (Su et al. 2021, "RoFormer"): how queries and keys are turned before their
// product, which then goes by the distance of two tokens. Numbers i and head_dim / 2 + i of a head
// are a point of the plane, as in transformers' Llama.
//
//   const std::vector<float> table = RotationTable<float>(config);
//   ops.rotate(qkv, table.data(), shape, /*back=*/false);
//
// Thread-safety: pure.
#ifndef WEFT_TRAINER_ROTATION_H_
#define WEFT_TRAINER_ROTATION_H_

#include <cstddef>
#include <vector>

#include "trainer/model_units.h"

namespace weft::trainer {

// Numbers of the table; 0 of a model without rotation.
size_t RotationCount(const ModelConfig& config);

// [seq, 2, head_dim / 2]: cosines, and sines, of position * rope_theta^(-2 i / head_dim).
template <typename T>
std::vector<T> RotationTable(const ModelConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ROTATION_H_
