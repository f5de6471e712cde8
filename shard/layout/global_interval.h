// Which elements of which tensor of the whole model a param is; include/weft/shard_global.h has the contract.
//
//   GlobalInterval own = WholeTensor("up.weight", {3072, 768}, 3072 * 768);   // what a param is unless it says something else
//   WEFT_RETURN_IF_ERROR(CheckGlobalIntervals(registry.params()));            // they agree, and none overlap
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

struct ParamSpec;

// Elements [begin, begin + the param's count) of the tensor, in row-major order.
struct GlobalInterval {
  std::string name;
  std::vector<int64_t> shape;  // of the tensor; empty: a scalar
  size_t total = 1;            // elements of the tensor
  size_t begin = 0;
  bool operator==(const GlobalInterval&) const = default;
};

GlobalInterval WholeTensor(std::string_view name, const std::vector<int64_t>& shape, size_t count);

// Elements of a shape; INVALID_ARGUMENT for a negative dimension, or when there are more than memory can hold. `what` is whose shape it
// is: "parameter blocks.0.weight".
absl::StatusOr<size_t> CountOfShape(std::string_view call, std::string_view what,
                                    const int64_t* shape, int ndim);

// INVALID_ARGUMENT, naming both params, if two of one tensor differ in its shape or in their type, or overlap.
absl::Status CheckGlobalIntervals(const std::vector<ParamSpec>& params);

}  // namespace weft
