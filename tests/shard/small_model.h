// A small model with every kind of param, made-up gradients, and what a step must make of them.
//
// The gradient of (step, micro-batch, rank, param, element) is a hash of these, so every rank and
// the single-threaded reference know all of them. Some are missing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "shard/context/context.h"
#include "tests/comm/kernels/reference.h"

namespace weft {

struct ModelParam {
  std::string unit;
  std::string name;
  std::vector<int64_t> shape;
  weft_dtype_t dtype;
  bool frozen = false;
  bool decays = true;
  bool writes_grad = false;
  bool counted = true;

  size_t count() const;
  uint32_t flags() const;
};

// Matrices, vectors, scalars, empty and frozen params of four types in five units. The gradients of some are zeroed, those of
// others written.
std::vector<ModelParam> SmallModel();

// Declares the model; unit and param indices count from 0 in its order.
absl::Status Declare(Context& context, const std::vector<ModelParam>& model,
                     const Placement& placement = {});
// Index of the unit of each param.
std::vector<int> UnitsOf(const std::vector<ModelParam>& model);

struct Scenario {
  uint64_t seed = 1;
  int ranks = 1;
  int steps = 2;
  int microbatches = 1;
  int missing_percent = 0;
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  bool average = true;
  weft_shard_wire_t wire = WEFT_SHARD_WIRE_GRADIENTS;
  int replica = 0;       // ranks of one, for INNER_EVERY_OUTER_LAST; 0: there are no replicas
  bool shuffle = false;  // order of units and params in backward differs per rank
  int grad_threads = 1;  // threads that call grad_ready for a unit's params
  // How many micro-batches of a step a rank has data for, before it joins; nullptr: all.
  std::function<int(int step, int rank)> data = nullptr;
  // Called where a unit's params may be read, in forward and in backward; nullptr: not.
  std::function<absl::Status(int unit)> in_use = nullptr;

  bool Missing(int step, int microbatch, int rank, int param) const;
  uint64_t Gradient(weft_dtype_t dtype, int step, int microbatch, int rank, int param,
                    size_t element) const;
};

// The reduced gradients of one step, by param: single-threaded, element by element.
std::vector<Elements> ExpectedGradients(const std::vector<ModelParam>& model,
                                        const Scenario& scenario, int step);

// Runs one step's calls on `context` as rank `rank`, up to and with finish.
absl::StatusOr<weft_shard_step_result_t> RunStep(Context& context,
                                                 const std::vector<ModelParam>& model,
                                                 const Scenario& scenario, int rank, int step);

// The gradients of a context as bits; empty for frozen params.
absl::StatusOr<std::vector<Elements>> ReadGradients(Context& context,
                                                    const std::vector<ModelParam>& model);

// What is reduced on this rank, its own part of each gradient, is what it should be.
absl::Status ExpectOwn(Context& context, const std::vector<ModelParam>& model,
                       const std::vector<Elements>& expected);

// Bits of `count` elements at `memory`, and back.
Elements ReadElements(weft_dtype_t dtype, const void* memory, size_t count);
void WriteElements(weft_dtype_t dtype, const Elements& elements, void* memory);

// A well mixed function of its argument.
uint64_t Mix(uint64_t value);

}  // namespace weft
