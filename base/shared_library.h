// Opens a shared library that not every machine has.
//
//   WEFT_ASSIGN_OR_RETURN(void* const library, OpenLibrary("libcuda.so.1"));
//   dlsym(library, "cuInit")
//
// It stays open until the process ends.
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace weft {

// `file` is a path, or a name that the system's loader looks for. UNSUPPORTED, with the loader's reason, if it cannot be opened.
absl::StatusOr<void*> OpenLibrary(const std::string& file);

// Whether the process has it loaded already, whoever has opened it.
bool IsLibraryLoaded(const std::string& file);

}  // namespace weft
