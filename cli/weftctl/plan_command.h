// `weftctl plan`: prints what each strategy costs for a model and a number of ranks, side by side.
//
//   PlanOutput output = FormatPlan({.params = "7e9", .ranks = 4}, /*json=*/false);
//
// Thread-safety: a pure function.
#pragma once

#include <string>

namespace weft {

// The command line. Numbers that are long as digits come as text: "7e9", "7B", "40GB".
struct PlanArguments {
  std::string params;  // a number; K, M, B or G, T are powers of 1000
  int ranks = 0;
  std::string mix =
      "fp32";      // fp32, fp16, bf16, or bytes per element "params,main,gradients,optimizer"
  int units = 32;  // equal ones; not looked at where largest_unit is given
  std::string largest_unit;  // as params; "": of equal units
  int micro_batches = 1;
  std::string accumulation = "local";  // local, every or inner
  int shard_group = 0;                 // ranks; 0: none
  std::string budget;                  // "40GB", "36GiB" per rank; "": none
  bool deepspeed = false;              // with what DeepSpeed's estimator says
  int ranks_per_node = 0;              // for that; 0: all ranks are on one node
};

struct PlanOutput {
  std::string text;     // empty if there is a problem
  std::string problem;  // a sentence about arguments that make no plan; else empty
};

// A table for people, or JSON.
PlanOutput FormatPlan(const PlanArguments& arguments, bool json);

}  // namespace weft
