// Opens the module that has io_uring in it (uring_module.h), when it is wanted.
//
//   WEFT_ASSIGN_OR_RETURN(const UringModule* uring, LoadUringModule());
//
// Where it is looked for: base/module.h. Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "shard/offload/uring_module.h"

namespace weft {

// UNSUPPORTED if it cannot be opened or is of another build; the sentence says which file, and why.
absl::StatusOr<const UringModule*> LoadUringModule();

// The same from a file: a path, or a name that the system's loader looks for.
absl::StatusOr<const UringModule*> LoadUringModuleFrom(const std::string& file);

}  // namespace weft
