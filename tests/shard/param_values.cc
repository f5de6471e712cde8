#include "tests/shard/param_values.h"

#include "base/status.h"
#include "comm/kernels/dtype.h"

namespace weft {

std::vector<Elements> DrawnValues(const std::vector<ModelParam>& model, const Scenario& scenario) {
  std::vector<Elements> values(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    for (size_t i = 0; i < model[p].count(); ++i)
      values[p].push_back(scenario.Gradient(model[p].dtype, 1000, 0, 0, static_cast<int>(p), i));
  }
  return values;
}

std::vector<Elements> SmallDrawnValues(const std::vector<ModelParam>& model,
                                       const Scenario& scenario) {
  std::vector<Elements> values = DrawnValues(model, scenario);
  for (size_t p = 0; p < model.size(); ++p) {
    const weft_dtype_t dtype = model[p].dtype;
    for (uint64_t& bits : values[p])
      bits = EncodeFloat(dtype, DecodeFloat(dtype, bits) * 0x1p-10F);
  }
  return values;
}

absl::Status LoadParams(Context& context, const std::vector<ModelParam>& model,
                        const std::vector<Elements>& values) {
  for (size_t p = 0; p < model.size(); ++p) {
    std::vector<char> memory(values[p].size() * DtypeSize(model[p].dtype));
    WriteElements(model[p].dtype, values[p], memory.data());
    WEFT_RETURN_IF_ERROR(context.Load(static_cast<int>(p), memory.data(), Context::kEveryRank));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Elements>> ReadParams(Context& context,
                                                 const std::vector<ModelParam>& model) {
  std::vector<Elements> params;
  for (size_t p = 0; p < model.size(); ++p) {
    std::vector<char> memory(model[p].count() * DtypeSize(model[p].dtype));
    WEFT_RETURN_IF_ERROR(context.Read(static_cast<int>(p), memory.data()));
    params.push_back(ReadElements(model[p].dtype, memory.data(), model[p].count()));
  }
  return params;
}

}  // namespace weft
