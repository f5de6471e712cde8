// What `weftctl plan` prints of the costs of strategies, as text or as JSON.
//
//   std::string text = PlanAsText({.input = input, .estimates = EstimateAll(input)});
//
// Thread-safety: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "shard/deepspeed_estimate.h"
#include "shard/estimate.h"

namespace weft {

struct PlanReport {
  EstimateInput input;
  std::vector<Estimate> estimates;      // of `input`
  std::vector<DeepSpeedRow> deepspeed;  // empty if it was not asked for
};

// For people: the model, a table of strategies in one unit of bytes, and what to take.
std::string PlanAsText(const PlanReport& report);

// For programs: the same in bytes and elements, as one JSON document that ends with a new line.
std::string PlanAsJson(const PlanReport& report);

// "local", "every", "inner": as the command line has it.
const char* AccumulationName(Accumulation accumulation);

}  // namespace weft
