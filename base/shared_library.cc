#include "base/shared_library.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "base/standard_fds.h"
#include "base/status.h"

namespace weft {

namespace {

bool IsStaticProgram() {
  return getauxval(AT_BASE) == 0;
}

}  // namespace

absl::StatusOr<void*> OpenLibrary(const std::string& file) {
  // It would get a second C library.
  if (IsStaticProgram()) {
    return MakeError(WEFT_UNSUPPORTED,
                     "this program is linked statically, and such programs open no libraries");
  }
  HoldStandardFds();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    // Of this thread, so what dlerror says is of the call before.
    const char* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return MakeError(WEFT_UNSUPPORTED, reason != nullptr ? reason : "unknown error");
  }
  return library;
}

bool IsLibraryLoaded(const std::string& file) {
  if (IsStaticProgram()) return false;
  HoldStandardFds();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace weft
