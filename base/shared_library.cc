#include "base/shared_library.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "base/standard_fds.h"
#include "base/status.h"

namespace weft {

absl::StatusOr<void*> OpenLibrary(const std::string& file) {
  // It would get a second C library.
  if (getauxval(AT_BASE) == 0) {
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

}  // namespace weft
