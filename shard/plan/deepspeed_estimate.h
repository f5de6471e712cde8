// What DeepSpeed's own estimator says of the same model, for comparison: its formulas are for
// float16 params with Adam, and count gradients otherwise than the ZeRO paper and shard/plan/estimate.h
// do.
//
//   const DeepSpeedInput input{2851e6, /*largest_layer=*/32e6, /*ranks=*/8, /*ranks_per_node=*/8};
//   for (const DeepSpeedRow& row : DeepSpeedRows(input))
//     ... row.device_bytes / (1 << 30) ...   // DeepSpeed prints 2^30 bytes as "GB"
//
// Formulas: "Memory Requirements" in DeepSpeed's documentation. Activations are not in them.
//
// Thread-safety: values and pure functions.
#pragma once

#include <vector>

namespace weft {

struct DeepSpeedInput {
  double param_count = 0;
  double largest_layer = 0;  // params of the largest module
  int ranks = 1;
  int ranks_per_node = 1;
};

struct DeepSpeedRow {
  int stage = 2;                 // of ZeRO: 2 or 3
  bool offloads_params = false;  // to the host
  bool offloads_optimizer = false;
  double device_bytes = 0;    // per rank
  double host_bytes = 0;      // per node; the whole model is made on the host first
  double host_bytes_cut = 0;  // layers are cut as they are made (zero.Init); stage 2 does not
};

// Stage 2 with the optimizer on the device and on the host; stage 3 with all on the device, the
// optimizer on the host, and params too.
std::vector<DeepSpeedRow> DeepSpeedRows(const DeepSpeedInput& input);

}  // namespace weft
