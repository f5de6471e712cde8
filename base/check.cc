#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void CheckFailed(const char* file, int line, const char* text) {
  std::fprintf(stderr, "weft: %s:%d: check failed: %s; this is a bug in weft\n", file, line, text);
  std::abort();
}

}  // namespace weft
