// What the table of every module begins with (base/module.h); for the modules, too, which have nothing of weft in them.
// Thread-safety: values.
#pragma once

#include <cstdint>

namespace weft {

struct ModuleTable {
  uint32_t version;      // of its build; raised with every change of the table
  uint32_t table_bytes;  // of the whole table
};

}  // namespace weft
