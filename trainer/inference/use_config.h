// What sample and eval have in common: which model they use, and how it is spread over the ranks.
#ifndef WEFT_TRAINER_INFERENCE_USE_CONFIG_H_
#define WEFT_TRAINER_INFERENCE_USE_CONFIG_H_

#include <string>

#include "weft/shard.h"

namespace weft::trainer {

struct UseConfig {
  std::string from;  // as SavedModel takes it
  weft_shard_preset_t strategy = WEFT_SHARD_NO_SHARD;
  int threads = 1;  // OpenMP threads of a rank
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_INFERENCE_USE_CONFIG_H_
