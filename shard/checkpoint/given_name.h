// What a program may call things in a checkpoint: names are members of JSON, and names of tensors become those of a safetensors file.
//
//   WEFT_RETURN_IF_ERROR(CheckGivenName("tensor", tensor.name));
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace weft {

// INVALID_ARGUMENT, saying what it is of, for a name that is empty, no UTF-8, longer than kCheckpointNameBytesMax, or "__metadata__", which means something else in
// safetensors files.
absl::Status CheckGivenName(std::string_view what, std::string_view name);

// The same of a context, whose name may be empty.
absl::Status CheckContextName(std::string_view name);

}  // namespace weft
