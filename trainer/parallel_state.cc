// The state of training that a rank has in memory, read and written as one run of bytes: how an
// elastic run goes on without a file.
#include "trainer/failure.h"
#include "trainer/parallel.h"

namespace weft::trainer {

bool DataParallel::StatePart(weft_shard_param_t param, int kind, weft_shard_state_part_t& part) {
  part = {};
  part.struct_size = sizeof part;
  const weft_result_t result =
      weft_shard_state_part(param, static_cast<weft_shard_state_kind_t>(kind), &part);
  if (result == WEFT_BAD_STATE) return false;
  Check(result, "asking for the state of a parameter");
  return true;
}

bool DataParallel::ReadState(std::vector<std::byte>& values, weft_shard_state_scalars_t& scalars) {
  scalars = {};
  scalars.struct_size = sizeof scalars;
  const weft_result_t result = weft_shard_state_scalars_get(context_, &scalars);
  if (result == WEFT_BAD_STATE) return false;
  Check(result, "asking for the counts of updates");
  values.clear();
  for (const Unit& unit : units_) {
    for (weft_shard_param_t param : unit.params) {
      for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; kind++) {
        weft_shard_state_part_t part;
        if (!StatePart(param, kind, part)) return false;
        const size_t before = values.size();
        values.resize(before + part.count * weft_dtype_size(part.dtype));
        Check(weft_shard_state_read(param, static_cast<weft_shard_state_kind_t>(kind), part.begin,
                                    part.count, values.data() + before),
              "reading the state of a parameter");
      }
    }
  }
  return true;
}

void DataParallel::WriteState(const std::vector<std::byte>& values,
                              const weft_shard_state_scalars_t& scalars) {
  Check(weft_shard_state_scalars_set(context_, &scalars), "setting the counts of updates");
  const std::byte* from = values.data();
  for (const Unit& unit : units_) {
    for (weft_shard_param_t param : unit.params) {
      for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; kind++) {
        weft_shard_state_part_t part;
        if (!StatePart(param, kind, part) || size_t(values.data() + values.size() - from) <
                                                 part.count * weft_dtype_size(part.dtype)) {
          throw RunFailure("the state to go on from is not that of this model");
        }
        Check(weft_shard_state_write(param, static_cast<weft_shard_state_kind_t>(kind), part.begin,
                                     part.count, from),
              "writing the state of a parameter");
        from += part.count * weft_dtype_size(part.dtype);
      }
    }
  }
  Check(weft_shard_state_written(context_, WEFT_SHARD_STATE_ALL, nullptr),
        "going on from weights and optimizer state");
}

int64_t DataParallel::update_count() {
  weft_shard_state_scalars_t scalars = {};
  scalars.struct_size = sizeof scalars;
  Check(weft_shard_state_scalars_get(context_, &scalars), "asking for the counts of updates");
  return scalars.update_count;
}

}  // namespace weft::trainer
