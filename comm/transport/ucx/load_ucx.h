// Opens the module that has UCX in it (ucx_module.h), when it is wanted.
//
//   WEFT_ASSIGN_OR_RETURN(const UcxModule* ucx, LoadUcxModule());
//
// Where it is looked for: base/module.h. Once opened it stays until the process ends: UCX has threads, and memory that others may hold. What
// it does to the handlers of signals when it is loaded is undone.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "comm/transport/ucx/ucx_module.h"

namespace weft {

// UNSUPPORTED if it cannot be opened or is of another build; the sentence says which file, and why.
absl::StatusOr<const UcxModule*> LoadUcxModule();

// The same from a file: a path, or a name that the system's loader looks for.
absl::StatusOr<const UcxModule*> LoadUcxModuleFrom(const std::string& file);

}  // namespace weft
