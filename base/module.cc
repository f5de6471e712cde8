#include "base/module.h"

#include <string_view>

#include <dlfcn.h>
#include <unistd.h>

#include "base/shared_library.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// The module beside the file that this code is in, or in the directory of libraries beside that of a program; "" if there is none.
std::string FileBesideThis(const char* module) {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<const void*>(&FileBesideThis), &here) == 0 ||
      here.dli_fname == nullptr) {
    return "";
  }
  const std::string_view own = here.dli_fname;
  const size_t slash = own.rfind('/');
  if (slash == std::string_view::npos) return "";
  for (const char* const directory : {"", "../lib/"}) {
    std::string file = StrCat(own.substr(0, slash), "/", directory, module);
    if (access(file.c_str(), F_OK) == 0) return file;
  }
  return "";
}

absl::Status CannotUse(const ModuleName& name, std::string_view why) {
  return MakeError(WEFT_UNSUPPORTED, StrCat(name.what, " cannot be used: ", why));
}

using ModuleEntry = const ModuleTable* (*)();

// A module's function may be of another type, which is for the version to show.
#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
const ModuleTable*
TableOf(ModuleEntry entry) {
  return entry();
}

}  // namespace

absl::StatusOr<const ModuleTable*> OpenModuleFrom(const ModuleName& name, const std::string& file) {
  const absl::StatusOr<void*> library = OpenLibrary(file);
  if (!library.ok()) {
    return CannotUse(
        name, StrCat("the module ", file, " could not be loaded: ", library.status().message()));
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(*library, name.entry));
  if (entry == nullptr) {
    return CannotUse(name, StrCat(file, " is no module of weft's: it has no ", name.entry));
  }
  const ModuleTable* const table = TableOf(entry);
  if (table->version != name.version || table->table_bytes != name.table_bytes) {
    return CannotUse(
        name,
        StrCat("the module ", file, " is of another build of weft: its version is ", table->version,
               ", and ", name.version, " is needed; install both from one build"));
  }
  return table;
}

absl::StatusOr<const ModuleTable*> OpenModule(const ModuleName& name) {
  const std::string beside = FileBesideThis(name.file);
  return OpenModuleFrom(name, beside.empty() ? name.file : beside);
}

}  // namespace weft
