// Context, the update of parameters.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/context/context.h"
#include "shard/context/section.h"
#include "shard/optimizer/update_agreement.h"

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
  words.push_back(UpdateMark(update));
  WEFT_RETURN_IF_ERROR(AddOverRanks(words, Purpose::Kind::kNorm));
  if (MarksDiffer(words.back(), update, group().size())) {
    return ExplainUpdates(group(), update, options_.timeout_ns,
                          purposes_.InStep(Purpose::Kind::kUpdate));
  }
  words.pop_back();

  weft_shard_update_result_t result = {};
  result.struct_size = sizeof(result);
  result.nonfinite = words.back();
  ExactSum::Words total = {};
  std::copy_n(words.begin(), total.size(), total.begin());
  const double scale = optimizer.loss_scale().value();
  const double scaled_norm = std::sqrt(ExactSum(total).Value());
  result.grad_norm = scaled_norm / scale;
  const bool scale_answers = !optimizer.loss_scale().at_least();
  result.skipped = optimizer.loss_scale().Update(result.nonfinite != 0) ? 1 : 0;
  result.loss_scale = optimizer.loss_scale().value();
  if (result.nonfinite == 0) {
    nonfinite_.End();
  } else if (const Nonfinite answer = nonfinite_.Next(*optimizer_config_, scale_answers);
             answer != Nonfinite::kSkip) {
    WEFT_RETURN_IF_ERROR(AnswerNonfinite(answer, result.nonfinite));
  }
  if (result.skipped == 0) {
    optimizer.Begin(storage, update.learning_rate,
                    GradientFactor(scale, scaled_norm, update.norm_max));
    WEFT_RETURN_IF_ERROR(UpdateParams());
  }
  result.update_count = optimizer.update_count();
  return result;
}

absl::Status Context::AnswerNonfinite(Nonfinite answer, int64_t elements) {
  absl::StatusOr<NonfiniteGradient> first =
      FirstNonfinite(group(), registry_, machine_->layout, machine_->storage, isa_,
                     options_.timeout_ns, purposes_.InStep(Purpose::Kind::kNonfinite));
  if (!first.ok()) {
    return LatchUnlocked(Annotate(first.status(), "optimizer_step, finding what is not finite: "));
  }
  const std::string text = NonfiniteText(*first, registry_,
                                         {.group = group().name(),
                                          .elements = elements,
                                          .step = purposes_.step(),
                                          .steps = nonfinite_.steps()});
  if (answer == Nonfinite::kFail) {
    return MakeError(WEFT_CORRUPT, CulpritOf(group(), first->rank, "optimizer_step"), text);
  }
  if (group().rank() == 0) LogWarn(text);
  return absl::OkStatus();
}

absl::Status Context::AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose) {
  const absl::Status status = group().Run({.kind = OpKind::kAllReduce,
                                           .dtype = WEFT_INT64,
                                           .op = WEFT_SUM,
                                           .count = words.size(),
                                           .purpose = purposes_.InStep(purpose),
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
  if (!norms.empty()) WEFT_RETURN_IF_ERROR(AddOverRanks(norms, Purpose::Kind::kParamNorms));
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
