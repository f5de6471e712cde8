// Gives all parameters of a model their values.
//
//   LoadParams(parallel, units, [&](const ParamSpec& spec, size_t index) { return file.Read(spec); });
//
// Collective over the ranks of the context's group. Thread-safety: pure but for the context.
#ifndef WEFT_TRAINER_LOAD_PARAMS_H_
#define WEFT_TRAINER_LOAD_PARAMS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "trainer/model_units.h"
#include "trainer/parallel.h"

namespace weft::trainer {

// Rank 0 is asked for the values of each, in the order of the units; one is in memory at a time.
inline void LoadParams(
    DataParallel& parallel, const std::vector<UnitSpec>& units,
    const std::function<std::vector<float>(const ParamSpec& spec, size_t index)>& values) {
  size_t index = 0;
  for (size_t u = 0; u < units.size(); u++) {
    for (size_t p = 0; p < units[u].params.size(); p++, index++) {
      std::vector<float> first;
      if (parallel.rank() == 0) first = values(units[u].params[p], index);
      parallel.Load(u, p, first.data());
    }
  }
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_LOAD_PARAMS_H_
