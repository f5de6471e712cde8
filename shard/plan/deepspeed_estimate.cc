#include "shard/plan/deepspeed_estimate.h"

#include <algorithm>

namespace weft {
namespace {

// DeepSpeed's margin on whatever lies on the host.
constexpr double kHostFactor = 1.5;
// Bytes per param: float32 params while a model is made; float32 params, gradients and moments;
// those and float16.
constexpr double kMade = 4;
constexpr double kStates = 16;
constexpr double kStatesAndParams = 18;

// A node holds one made model per rank, and later what was moved to it.
double Host(const DeepSpeedInput& input, double made, double offloaded) {
  return std::max(made * kMade * input.ranks_per_node, offloaded) * kHostFactor;
}

}  // namespace

std::vector<DeepSpeedRow> DeepSpeedRows(const DeepSpeedInput& input) {
  const double all = input.param_count;
  const double share = all / input.ranks;
  const double node_share = share * input.ranks_per_node;
  const double layer =
      4 * input.largest_layer;  // float16 params and gradients of the one that is gathered
  const double made = Host(input, all, 0);
  const double stage2_host = Host(input, all, kStates * all);
  return {
      {2, false, false, 4 * all + kStates * share, made, made},
      {2, false, true, 2 * all, stage2_host, stage2_host},
      {3, false, false, layer + kStatesAndParams * share, made,
       Host(input, input.largest_layer, 0)},
      {3, false, true, layer + 2 * share, Host(input, all, kStates * node_share),
       Host(input, 0, kStates * node_share)},
      {3, true, true, layer, Host(input, all, kStatesAndParams * node_share),
       Host(input, 0, kStatesAndParams * node_share)},
  };
}

}  // namespace weft
