#include "bench/weft_perf/plan.h"

#include <cstdint>
#include <numeric>

namespace weft::perf {

size_t NextSize(const Options& options, size_t bytes) {
  if (options.step_factor > 1) {
    return bytes > SIZE_MAX / options.step_factor ? SIZE_MAX : bytes * options.step_factor;
  }
  return bytes > SIZE_MAX - options.step_bytes ? SIZE_MAX : bytes + options.step_bytes;
}

std::string WhySkipped(const Options& options, int ranks) {
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (options.operation->kind != OperationKind::kHyperCube || power_of_two) return "";
  return Printf("nRanks %d is not a power of 2, skipping\n", ranks);
}

std::vector<const Reduction*> ReductionsOf(const Options& options) {
  if (!options.operation->lists_reductions()) return {nullptr};
  return options.reductions;
}

std::vector<int> RootsOf(const Options& options, int ranks) {
  if (!options.operation->rooted) return {0};
  if (options.root != kAllRoots) return {options.root};
  std::vector<int> roots(static_cast<size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

}  // namespace weft::perf
