// A model of one float32 param per unit, trained by AdamW, whose gradients depend on weights, rank and step.
//
//   TrainedModel model({.preset = WEFT_SHARD_ZERO1, .counts = {640, 3}});
//   WEFT_RETURN_IF_ERROR(model.Make(mesh, options));
//   WEFT_RETURN_IF_ERROR(model.Step());
//   WEFT_ASSIGN_OR_RETURN(const std::vector<float> weights, model.Read());
//
// Thread-safety: none; one per rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context.h"

namespace weft {

struct TrainedModelOptions {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  std::vector<int64_t> counts;  // elements of the param of each unit
  int microbatches = 1;         // per step
};

class TrainedModel {
 public:
  // After a call of a step, which is named.
  using AtEvent = std::function<absl::Status(std::string_view call)>;

  explicit TrainedModel(TrainedModelOptions options) : options_(std::move(options)) {}

  // Declares, finalizes, and sets this rank's parts of all weights.
  absl::Status Make(std::shared_ptr<const Mesh> mesh, const ContextOptions& options);
  absl::Status Step(const AtEvent& at = nullptr);
  // All weights.
  absl::StatusOr<std::vector<float>> Read();

  Context& context() { return *context_; }

  const weft_shard_plan_t& plan() const { return plan_; }

  // Units in the order of forward; backward goes the other way.
  std::vector<int> order;

 private:
  absl::Status Forward(const AtEvent& at);
  absl::Status Backward(const AtEvent& at);
  absl::Status Done(const absl::Status& status, std::string_view call, const AtEvent& at) const;

  const TrainedModelOptions options_;
  std::unique_ptr<Context> context_;
  weft_shard_plan_t plan_ = {};
  uint32_t rank_ = 0;
  uint32_t step_ = 0;
};

}  // namespace weft
