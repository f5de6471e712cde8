// Context, the update of parameters.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shard/context.h"
#include "shard/section.h"

namespace weft {

absl::Status Context::SetOptimizer(const OptimizerConfig& config) {
  if (config.dynamic_scale) WEFT_RETURN_IF_ERROR(CheckLossScaleOptions(config.scale));
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("context_optimizer"));
  if (optimizer_config_.has_value()) {
    return MakeError(WEFT_BAD_STATE, {.operation = "context_optimizer"},
                     "context_optimizer: the context has an optimizer already; give it one");
  }
  optimizer_config_ = config;
  planned_.reset();
  return absl::OkStatus();
}

absl::StatusOr<double> Context::LossScale() {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckOptimizer("loss_scale"));
  return machine_->optimizer->loss_scale().value();
}

absl::Status Context::CheckOptimizer(const char* call) const {
  WEFT_RETURN_IF_ERROR(CheckUsable(call));
  if (machine_->optimizer != nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          ": the context has no optimizer; give it one with "
                          "weft_shard_context_optimizer before finalize"));
}

absl::StatusOr<weft_shard_update_result_t> Context::OptimizerStep(
    const weft_shard_update_t& update) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckOptimizer("optimizer_step"));
    WEFT_RETURN_IF_ERROR(machine_->state.OptimizerStep());
  }
  ShardOptimizer& optimizer = *machine_->optimizer;
  const Storage& storage = machine_->storage;
  const GradientSums own = optimizer.SumGradients(storage);
  const ExactSum::Words squares = own.squares.words();
  std::vector<int64_t> words(squares.begin(), squares.end());
  words.push_back(own.nonfinite);
  WEFT_RETURN_IF_ERROR(AddOverRanks(words));

  weft_shard_update_result_t result = {};
  result.struct_size = sizeof(result);
  result.nonfinite = words.back();
  ExactSum::Words total = {};
  std::copy_n(words.begin(), total.size(), total.begin());
  const double scale = optimizer.loss_scale().value();
  const double scaled_norm = std::sqrt(ExactSum(total).Value());
  result.grad_norm = scaled_norm / scale;
  result.skipped = optimizer.loss_scale().Update(result.nonfinite != 0) ? 1 : 0;
  result.loss_scale = optimizer.loss_scale().value();
  if (result.skipped == 0) {
    optimizer.Begin(storage, update.learning_rate,
                    GradientFactor(scale, scaled_norm, update.norm_max));
    WEFT_RETURN_IF_ERROR(UpdateParams());
  }
  result.update_count = optimizer.update_count();
  return result;
}

absl::Status Context::AddOverRanks(std::vector<int64_t>& words) {
  const absl::Status status = group().Run({.kind = OpKind::kAllReduce,
                                           .dtype = WEFT_INT64,
                                           .op = WEFT_SUM,
                                           .count = words.size(),
                                           .purpose = machine_->reduction.purpose(),
                                           .in = words.data(),
                                           .out = words.data(),
                                           .timeout_ns = options_.timeout_ns});
  return LatchUnlocked(Annotate(status, "optimizer_step, adding norms: "));
}

// In the order in which forward will want the params.
absl::Status Context::UpdateParams() {
  WEFT_RETURN_IF_ERROR(Drain());  // of parts that the caller has updated
  ShardOptimizer& optimizer = *machine_->optimizer;
  std::vector<int64_t> norms = optimizer.StartNorms(machine_->storage);
  if (!norms.empty()) WEFT_RETURN_IF_ERROR(AddOverRanks(norms));
  optimizer.TakeNorms(norms);
  const std::vector<Bucket>& buckets = machine_->layout.buckets;
  for (size_t i = buckets.size(); i > 0; --i) {
    for (const int extent : buckets[i - 1].pack.extents)
      optimizer.Update(machine_->storage, extent);
    Section section(*this);
    WEFT_RETURN_IF_ERROR(Latch(machine_->residence.StartUpdate(static_cast<int>(i - 1))));
  }
  return absl::OkStatus();
}

}  // namespace weft
