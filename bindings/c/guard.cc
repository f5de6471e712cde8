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

absl::Status ForkedError(std::string_view call, std::string_view kind) {
  return CallError(
      WEFT_FORKED, call,
      StrCat("the ", kind,
             " was made by the parent of this forked process, which goes on with it; a "
             "child that is to use weft must be forked before the parent makes groups "
             "or shared memory"));
}

}  // namespace weft
