// Which params of a list make a unit: by what their names begin with, by size, or both.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<ParamGroup> groups,
//                         GroupParams(params, {.prefix = "blocks.*"}));
//
// By prefix: one group per distinct match, as PyTorch's ModuleWrapPolicy makes one unit per module of a class. What does
// not match stays together as far as it is neighbours: PyTorch's policies leave all of it to one root unit, which is
// then gathered during the whole step; torchtitan therefore gives the embedding, and norm and head, units of
// their own (apply_fsdp, torchtitan/models/llama3/infra/parallelize.py), and so does this.
// By size: neighbours are joined until a group has enough bytes, as size_based_auto_wrap_policy
// (torch/distributed/fsdp/wrap.py) does with modules; the remainder, which that leaves to the root unit, joins the
// last group, so that none is too small.
//
// Thread-safety: pure functions, values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct GroupedParam {
  std::string name;
  size_t bytes = 0;
};

struct Grouping {
  std::string
      prefix;  // components with dots between, "*" for any one; empty: every param is for itself
  size_t min_bytes = 0;  // 0: no groups are joined
};

// Params [first, first + count) of the list.
struct ParamGroup {
  std::string name;
  size_t first = 0;
  size_t count = 0;
  size_t bytes = 0;
  bool operator==(const ParamGroup&) const = default;
};

// In the order of the params, each in one group. INVALID_ARGUMENT for a grouping that says nothing or is malformed,
// a prefix that nothing matches, and one whose params are not neighbours.
absl::StatusOr<std::vector<ParamGroup>> GroupParams(const std::vector<GroupedParam>& params,
                                                    const Grouping& grouping);

}  // namespace weft
