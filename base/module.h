// Opens the modules of weft: libraries of its own that hold what not every machine has, so that weft needs it neither where it is compiled
// nor where it runs.
//
//   constexpr ModuleName kUcx = {"UCX", "libweft_ucx.so", "weft_ucx_module", kUcxModuleVersion, sizeof(UcxModule)};
//   WEFT_ASSIGN_OR_RETURN(const void* table, OpenModule(kUcx));
//
// A module has one function, without arguments, which returns a table that begins with a ModuleTable. A module is looked for beside the library or program that this is in, in the directory of libraries beside that of a program, then
// where the system's loader looks. Once opened it stays until the process ends.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/module_table.h"

namespace weft {

struct ModuleName {
  const char* what;   // for people: "UCX"
  const char* file;   // "libweft_ucx.so"
  const char* entry;  // its function
  uint32_t version;   // that is needed
  uint32_t table_bytes;
};

// The module's table. UNSUPPORTED if it cannot be opened or is of another build; the sentence says which file, and why.
absl::StatusOr<const ModuleTable*> OpenModule(const ModuleName& name);

// The same from a file: a path, or a name that the system's loader looks for.
absl::StatusOr<const ModuleTable*> OpenModuleFrom(const ModuleName& name, const std::string& file);

}  // namespace weft
