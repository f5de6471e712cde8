// A module as another build of weft may have it: another version, and a table of which nothing but its beginning is known.
#include <cstdint>

namespace {

struct Beginning {
  uint32_t version = 4711;
  uint32_t table_bytes = sizeof(Beginning);
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* weft_ucx_module() {
  static const Beginning beginning;
  return &beginning;
}
