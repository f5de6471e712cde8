// The variables by which torchrun's options are set from outside (PET_...), as Kubeflow sets them for each pod. weftrun reads them
// as torchrun does, so that one pod template starts either.
//
//   JobShape shape;                                    // what the command line says
//   WEFT_RETURN_IF_ERROR(FillFromTorchrunVariables(EnvironmentValue, machine, &shape));
//   shape.node_count.value_or(1)
//
// Thread-safety: any thread, as long as none changes the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace weft {

// How many ranks on how many nodes, and where they meet; what nobody has said is missing.
struct JobShape {
  std::optional<int> ranks_per_node;
  std::optional<int> node_count;
  std::optional<int> node_rank;
  std::optional<std::string> master_host;
  std::optional<int> master_port;
};

// What PET_NPROC_PER_NODE's words mean here.
struct CountedMachine {
  int cpus = 1;
  bool devices = false;  // it has accelerators, which "auto" counts where there are some
};

// The value of a variable or nullptr. An empty value counts as none.
using VariableGetter = std::function<const char*(const char* name)>;

// Fills in what is missing, by PET_NPROC_PER_NODE, PET_NNODES, PET_NODE_RANK, and PET_RDZV_ENDPOINT or PET_MASTER_ADDR and
// PET_MASTER_PORT. INVALID_ARGUMENT, of a variable that is looked at and says what weftrun cannot do, names it and the option
// that takes its place.
absl::Status FillFromTorchrunVariables(const VariableGetter& get, const CountedMachine& machine,
                                       JobShape* shape);

}  // namespace weft
