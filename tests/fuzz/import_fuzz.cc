// Models of other programs: ./dev fuzz import.
#include "tests/fuzz/fuzzed.h"
#include "tests/fuzz/import_case.h"

namespace weft::test {

Fuzzed MakeFuzzed() {
  const ImportCase model;
  return {.seeds = model.Seeds(), .wrong_of = [model](std::string_view input) {
            return model.Try(input).wrong;
          }};
}

}  // namespace weft::test
