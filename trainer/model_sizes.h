// Models by name: for bytes from 1 to 85 million parameters, the four of GPT-2, and three of Llama.
//
//   config.model = ModelOfSize("gpt2-medium");     // throws BadInput for another name
//   NameOfSize(config.model)                        // "gpt2-medium"; "custom" of a model of another shape
//
// Thread-safety: pure.
#ifndef WEFT_TRAINER_MODEL_SIZES_H_
#define WEFT_TRAINER_MODEL_SIZES_H_

#include <string>

#include "trainer/model_units.h"

namespace weft::trainer {

// What no name stands for, as a value of --model.
constexpr const char* kCustomSize = "custom";

ModelConfig ModelOfSize(const std::string& name);
std::string NameOfSize(const ModelConfig& model);
// "1m, 3m, ... and gpt2-xl".
std::string SizeNames();

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_SIZES_H_
