// Files of a checkpoint: ./dev fuzz checkpoint.
#include <memory>

#include "tests/fuzz/checkpoint_case.h"
#include "tests/fuzz/fuzzed.h"

namespace weft::test {

Fuzzed MakeFuzzed() {
  const auto checkpoint = std::make_shared<CheckpointCase>();
  return {.seeds = checkpoint->Seeds(), .wrong_of = [checkpoint](std::string_view input) {
            return checkpoint->Try(input).wrong;
          }};
}

}  // namespace weft::test
