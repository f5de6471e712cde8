#include "trainer/reports/sent_bytes.h"

#include "trainer/model_units.h"

namespace weft::trainer {

double TheorySentBytes(const TrainConfig& config, size_t ranks) {
  const double part = double(ranks - 1) / double(ranks);
  const double count = double(ParameterCount(ModelUnits(config.model)));
  const double wire = config.reduce_type == WEFT_SHARD_WIRE_GRADIENTS ? sizeof(float) : 2;
  const bool every = config.accumulation == WEFT_SHARD_REDUCE_EVERY;
  const double gradients = count * wire * (every ? double(config.accumulate) : 1);
  const double params = count * double(BytesOf(config.param_type));
  switch (config.strategy) {
    case WEFT_SHARD_NO_SHARD:
      return part * 2 * gradients;
    case WEFT_SHARD_ZERO1:
    case WEFT_SHARD_ZERO2:
      return part * (gradients + params);
    case WEFT_SHARD_GRAD_OP:
      return part * (gradients + double(config.accumulate) * params);
    case WEFT_SHARD_FULL_SHARD:
      return part * (gradients + 2 * double(config.accumulate) * params);
    default:
      return 0;
  }
}

}  // namespace weft::trainer
