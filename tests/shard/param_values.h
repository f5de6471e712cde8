// Values of all params of a model, as bits by param: made up, loaded into a context, and read from it.
//
//   WEFT_RETURN_IF_ERROR(LoadParams(*context, model, DrawnValues(model, scenario)));
//   ... steps ...
//   WEFT_ASSIGN_OR_RETURN(const std::vector<Elements> params, ReadParams(*context, model));
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context.h"
#include "tests/shard/small_model.h"

namespace weft {

// Drawn like the gradients of a step that no scenario has.
std::vector<Elements> DrawnValues(const std::vector<ModelParam>& model, const Scenario& scenario);

// The same times 2^-10, so at most 2; not of float64.
std::vector<Elements> SmallDrawnValues(const std::vector<ModelParam>& model,
                                       const Scenario& scenario);

absl::Status LoadParams(Context& context, const std::vector<ModelParam>& model,
                        const std::vector<Elements>& values);

absl::StatusOr<std::vector<Elements>> ReadParams(Context& context,
                                                 const std::vector<ModelParam>& model);

}  // namespace weft
