// A module as another build of weft may have it: another version, and a table of which nothing but its beginning is known.
#include "base/module_table.h"

extern "C" __attribute__((visibility("default"))) const void* weft_uring_module() {
  static const weft::ModuleTable table = {4711, sizeof(table)};
  return &table;
}
