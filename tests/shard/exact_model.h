// A model of vectors whose weights and gradients are small integers, which float32 adds without rounding: so a
// step of any order, with units used twice or not at all, has one right result that is easily said.
//
//   ExactModel model(context, {.units = {...}}, rank, ranks);
//   WEFT_RETURN_IF_ERROR(model.Finalize());
//   WEFT_ASSIGN_OR_RETURN(auto result, model.Train(ScriptOf({0, 1, 2}, {2, 1, 0}), /*tag=*/0));
//
// Wherever params may be read they are compared with what they should be, and so are this rank's parts of
// the gradients after finish; then w += gradient, summed over all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context.h"

namespace weft {

struct ExactUnit {
  Placement placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
  std::vector<int64_t> counts = {200};  // of its params
  int within = -1;
};

std::vector<ExactUnit> ExactUnits(size_t units, weft_shard_preset_t preset);

using Script = std::vector<Event>;

// One micro-batch of forward and backward in these orders; no backward: for eval.
Script ScriptOf(const std::vector<int>& forward, const std::vector<int>& backward,
                int microbatches = 1, bool finish = true);

// 0, 1, ... in an order that the seed says.
std::vector<int> Shuffled(size_t units, uint64_t seed);

class ExactModel {
 public:
  ExactModel(Context& context, std::vector<ExactUnit> units, int rank, int ranks)
      : context_(context), units_(std::move(units)), rank_(rank), ranks_(ranks) {}

  // Declares, finalizes and loads the units.
  absl::StatusOr<weft_shard_plan_t> Finalize();

  // Called before every call of a step, and in backward before each gradient; nullptr: not.
  std::function<void()> pause;

  // Called with the address of a param wherever it may be read; nullptr: not.
  std::function<void(int param, const void* data)> seen;

  // Where a unit is unsharded to; nullptr: in the pool.
  std::function<UnshardDestination(int unit)> destination;

  // A training step with the update and step_end. `script_of` says what each rank does, if they differ.
  absl::StatusOr<weft_shard_step_result_t> Train(const Script& script, uint64_t tag = 0);
  absl::StatusOr<weft_shard_step_result_t> Train(const std::function<Script(int rank)>& script_of,
                                                 uint64_t tag = 0);
  // Forward only; the result is empty if the script has no finish.
  absl::StatusOr<weft_shard_step_result_t> Eval(const Script& script, uint64_t tag = 0);

  // All params are what they should be.
  absl::Status ExpectWeights();

 private:
  using Values = std::vector<float>;

  float Gradient(int rank, int param, size_t element, int backward) const;
  absl::StatusOr<weft_shard_step_result_t> Run(const Script& script);
  absl::Status Call(const Event& event, int* microbatch);
  absl::Status ExpectWhole(int unit);
  absl::Status GiveGradients(int unit);
  absl::Status Update(const std::function<Script(int rank)>& script_of);
  void Pause() const;

  template <typename Body>
  absl::Status ForParams(int unit, const Body& body) const;

  Context& context_;
  const std::vector<ExactUnit> units_;
  const int rank_;
  const int ranks_;
  std::vector<Values> weights_;   // by param
  std::vector<int> first_param_;  // by unit
  std::vector<int> backwards_;    // of this step, by unit
  int step_ = 0;
};

}  // namespace weft
