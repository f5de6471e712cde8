// The rule behind SelectIsa, apart from the environment so that tests can ask it anything.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "comm/kernels/reduce.h"

namespace weft {

// What WEFT_ISA=`name` means on a CPU whose best instruction set is `best`; "" asks for `best`.
absl::StatusOr<Isa> ParseIsa(std::string_view name, Isa best);

}  // namespace weft
