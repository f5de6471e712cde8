// An update needs numbers of all ranks before it can begin: the norm, whether all gradients are finite, and whether all
// were asked for the same. They travel as one all_reduce of integers, so that every rank decides the same with the same
// bits. Only when something is wrong more is asked, so a step that is right pays for one collective.
#include "shard/context/optimizer_driver.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/optimizer/update_agreement.h"

namespace weft {

absl::StatusOr<double> OptimizerDriver::LossScale() {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(CheckOptimizer("loss_scale"));
  return core_.runtime().optimizer->loss_scale().value();
}

absl::Status OptimizerDriver::CheckOptimizer(const char* call) const {
  WEFT_RETURN_IF_ERROR(core_.CheckUsable(call));
  if (core_.runtime().optimizer != nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          ": the context has no optimizer; give it one with "
                          "weft_shard_context_optimizer before finalize"));
}

absl::StatusOr<weft_shard_update_result_t> OptimizerDriver::Step(
    const weft_shard_update_t& update) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(CheckOptimizer("optimizer_step"));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.OptimizerStep());
  }
  ShardOptimizer& optimizer = *core_.runtime().optimizer;
  const Storage& storage = core_.runtime().storage;
  const GradientSums own = optimizer.SumGradients(storage);
  const ExactSum::Words squares = own.squares.words();
  std::vector<int64_t> words(squares.begin(), squares.end());
  words.push_back(own.nonfinite);
  words.push_back(UpdateMark(update));
  WEFT_RETURN_IF_ERROR(AddOverRanks(words, Purpose::Kind::kNorm));
  if (MarksDiffer(words.back(), update, core_.group().size())) {
    return ExplainUpdates(core_.group(), update, core_.options().timeout_ns,
                          core_.purposes().InStep(Purpose::Kind::kUpdate));
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
  } else if (const Nonfinite answer = nonfinite_.Next(*core_.declared().optimizer, scale_answers);
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

absl::Status OptimizerDriver::AnswerNonfinite(Nonfinite answer, int64_t elements) {
  absl::StatusOr<NonfiniteGradient> first = FirstNonfinite(
      core_.group(), core_.declared().registry, core_.runtime().layout, core_.runtime().storage,
      core_.isa(), core_.options().timeout_ns, core_.purposes().InStep(Purpose::Kind::kNonfinite));
  if (!first.ok()) {
    return core_.LatchUnlocked(
        Annotate(first.status(), "optimizer_step, finding what is not finite: "));
  }
  const std::string text = NonfiniteText(*first, core_.declared().registry,
                                         {.group = core_.group().name(),
                                          .elements = elements,
                                          .step = core_.purposes().step(),
                                          .steps = nonfinite_.steps()});
  if (answer == Nonfinite::kFail) {
    return MakeError(WEFT_CORRUPT, CulpritOf(core_.group(), first->rank, "optimizer_step"), text);
  }
  if (core_.group().rank() == 0) LogWarn(text);
  return absl::OkStatus();
}

absl::Status OptimizerDriver::AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose) {
  const absl::Status status = core_.group().Run({.kind = OpKind::kAllReduce,
                                                 .dtype = WEFT_INT64,
                                                 .op = WEFT_SUM,
                                                 .count = words.size(),
                                                 .purpose = core_.purposes().InStep(purpose),
                                                 .in = words.data(),
                                                 .out = words.data(),
                                                 .timeout_ns = core_.options().timeout_ns});
  return core_.LatchUnlocked(Annotate(status, "optimizer_step, adding norms: "));
}

// In the order in which forward will want the params.
absl::Status OptimizerDriver::UpdateParams() {
  WEFT_RETURN_IF_ERROR(core_.Drain());  // of parts that the caller has updated
  ShardOptimizer& optimizer = *core_.runtime().optimizer;
  std::vector<int64_t> norms = optimizer.StartNorms(core_.runtime().storage);
  if (!norms.empty()) WEFT_RETURN_IF_ERROR(AddOverRanks(norms, Purpose::Kind::kParamNorms));
  optimizer.TakeNorms(norms);
  const std::vector<Bucket>& buckets = core_.runtime().layout.buckets;
  for (size_t i = buckets.size(); i > 0; --i) {
    for (const int extent : buckets[i - 1].pack.extents)
      optimizer.Update(core_.runtime().storage, extent);
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.Latch(core_.runtime().updates.Start(static_cast<int>(i - 1))));
  }
  return absl::OkStatus();
}

}  // namespace weft
