#include "bindings/c/guard.h"

#include <exception>
#include <new>

namespace weft {

absl::Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return MakeError(WEFT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return MakeError(WEFT_INTERNAL_ERROR, StrCat("unexpected: ", error.what()));
  }
}

}  // namespace weft
