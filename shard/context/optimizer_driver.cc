// An update needs numbers of all ranks before it can begin: the norm, whether all gradients are finite, whether all
// were asked for the same, and what any rank requests. They travel as one all_reduce of integers, so that every rank decides the same with the same
// bits. Only when something is wrong more is asked, so a step that is right pays for one collective.
#include "shard/context/optimizer_driver.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/context/state_scalars.h"
#include "shard/optimizer/gradient_norm.h"
#include "shard/optimizer/update_agreement.h"
#include "shard/optimizer/update_requests.h"

namespace weft {
namespace {

// Of a sum of squares, and how many gradients are not finite.
constexpr size_t kNormWords = WEFT_SHARD_NORM_WORDS + 1;

}  // namespace

absl::StatusOr<double> OptimizerDriver::LossScale() {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(CheckOptimizer("loss_scale"));
  return core_.runtime().optimizer->loss_scale().value();
}

absl::StatusOr<OptimizerGroup> OptimizerDriver::Group(int group) const {
  constexpr char kCall[] = "param_group_get";
  Section section(core_.mutex);
  return GroupAt(core_.finalized() && core_.runtime().optimizer != nullptr
                     ? core_.runtime().optimizer->groups()
                     : core_.declared().groups,
                 group, kCall);
}

absl::Status OptimizerDriver::SetGroup(int group, const weft_shard_param_group_t& change) {
  constexpr char kCall[] = "param_group_set";
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(CheckOptimizer(kCall));
  WEFT_RETURN_IF_ERROR(core_.CheckQuiet(kCall));
  ShardOptimizer& optimizer = *core_.runtime().optimizer;
  WEFT_ASSIGN_OR_RETURN(const OptimizerGroup before, GroupAt(optimizer.groups(), group, kCall));
  WEFT_ASSIGN_OR_RETURN(const OptimizerGroup after, Changed(before, change, kCall));
  WEFT_RETURN_IF_ERROR(CheckSameState(before, after, group));
  optimizer.SetGroup(group, after);
  return absl::OkStatus();
}

absl::Status OptimizerDriver::CheckOptimizer(const char* call) const {
  WEFT_RETURN_IF_ERROR(core_.CheckUsable(call));
  if (core_.runtime().optimizer != nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          ": the context has no optimizer; give it one with "
                          "weft_shard_context_optimizer before finalize"));
}

double OptimizerDriver::ScaleOfGradients() const {
  ShardOptimizer* const optimizer = core_.runtime().optimizer.get();
  return optimizer == nullptr ? 1 : optimizer->loss_scale().value();
}

absl::StatusOr<std::vector<int64_t>> OptimizerDriver::OwnSums() const {
  const Runtime& runtime = core_.runtime();
  GradientSums own;
  if (runtime.optimizer != nullptr) {
    own = runtime.optimizer->SumGradients(runtime.storage);
  } else {
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> alone, ThreadTeam::Start(1));
    own = GradientSummer(core_.declared().registry, runtime.layout, core_.isa())
              .Sum(runtime.storage, *alone);
  }
  const ExactSum::Words squares = own.squares.words();
  std::vector<int64_t> words(squares.begin(), squares.end());
  words.push_back(own.nonfinite);
  return words;
}

absl::StatusOr<weft_shard_norm_t> OptimizerDriver::GradientNorm() {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("gradient_norm"));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.CheckGradientNorm());
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> words, OwnSums());
  WEFT_RETURN_IF_ERROR(AddOverRanks(words, Purpose::Kind::kNorm, "gradient_norm"));
  found_nonfinite_ = words.back();
  return NormOf(words, ScaleOfGradients());
}

absl::StatusOr<weft_shard_update_result_t> OptimizerDriver::Step(
    const weft_shard_update_t& update) {
  weft_shard_state_scalars_t scalars{};
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(CheckOptimizer("optimizer_step"));
    WEFT_RETURN_IF_ERROR(CheckUpdate(update, ScaleOfGradients()));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.OptimizerStep());
    scalars = ScalarsOf(core_, nonfinite_);
  }
  ShardOptimizer& optimizer = *core_.runtime().optimizer;
  const int64_t found_apart = std::exchange(found_nonfinite_, 0);
  // As many words either way, so that a norm which only some ranks pass is found by the mark, and no failure.
  std::vector<int64_t> words(kNormWords, 0);
  if (update.norm == nullptr) {
    WEFT_ASSIGN_OR_RETURN(words, OwnSums());
  }
  WEFT_ASSIGN_OR_RETURN(const uint64_t requests, Agree(&update, scalars, words));

  const double scale = ScaleOfGradients();
  const weft_shard_norm_t norm = update.norm != nullptr ? *update.norm : NormOf(words, scale);
  const int64_t found_here = update.norm != nullptr ? found_apart : norm.nonfinite;
  const double factor = update.gradient_factor == 0 ? 1 : update.gradient_factor;
  weft_shard_update_result_t result = {};
  result.struct_size = sizeof(result);
  result.nonfinite = norm.nonfinite;
  result.grad_norm = norm.norm * factor;
  result.requests = requests;
  const bool scale_answers = !optimizer.loss_scale().at_least();
  result.skipped = optimizer.loss_scale().Update(norm.nonfinite != 0) ? 1 : 0;
  if (norm.nonfinite == 0) {
    nonfinite_.End();
  } else if (const Nonfinite answer = nonfinite_.Next(*core_.declared().optimizer, scale_answers);
             answer != Nonfinite::kSkip && found_here != 0) {
    WEFT_RETURN_IF_ERROR(AnswerNonfinite(answer, norm.nonfinite));
  }
  result.loss_scale = optimizer.loss_scale().value();
  if (result.skipped == 0) {
    const double scaled_norm = std::sqrt(ExactSum(SquaresOf(norm)).Value());
    WEFT_RETURN_IF_ERROR(UpdateParams(
        update.learning_rate, GradientFactor(scale / factor, scaled_norm, update.norm_max)));
  }
  result.update_count = optimizer.update_count();
  Section section(core_.mutex);
  core_.runtime().callers_turn.Begin(/*due=*/result.skipped == 0);
  return result;
}

absl::Status OptimizerDriver::DropGradients() {
  weft_shard_state_scalars_t scalars{};
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(CheckOptimizer("drop_gradients"));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.DropGradients());
    scalars = ScalarsOf(core_, nonfinite_);
  }
  found_nonfinite_ = 0;
  std::vector<int64_t> words(kNormWords, 0);
  WEFT_RETURN_IF_ERROR(Agree(nullptr, scalars, words).status());
  Section section(core_.mutex);
  core_.runtime().callers_turn.Begin(/*due=*/false);
  return absl::OkStatus();
}

absl::Status OptimizerDriver::EndCallersTurn() {
  constexpr char kCall[] = "step_end";
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckUsable(kCall));
  WEFT_RETURN_IF_ERROR(core_.CheckUpdated(kCall));
  core_.runtime().callers_turn.End();
  return absl::OkStatus();
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
    const absl::Status corrupt =
        MakeError(WEFT_CORRUPT, CulpritOf(core_.group(), first->rank, "optimizer_step"), text);
    return first->param < 0 ? corrupt : core_.AboutParam(first->param, corrupt);
  }
  if (core_.group().rank() == 0) LogWarn(text);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> OptimizerDriver::Agree(const weft_shard_update_t* update,
                                                const weft_shard_state_scalars_t& scalars,
                                                std::vector<int64_t>& words) {
  const char* const call = update == nullptr ? "drop_gradients" : "optimizer_step";
  const ShardOptimizer& optimizer = *core_.runtime().optimizer;
  const int ranks = core_.group().size();
  const int64_t mark = UpdateMark(update, optimizer.groups_mark());
  words.push_back(MarkOf(scalars));
  words.push_back(mark);
  AppendRequests(update == nullptr ? 0 : update->requests, ranks, words);
  WEFT_RETURN_IF_ERROR(AddOverRanks(words, Purpose::Kind::kNorm, call));
  const uint64_t requests = TakeRequests(words, ranks);
  if (MarksDiffer(words.back(), mark, ranks)) {
    return ExplainUpdates(core_.group(), update, optimizer.groups(), core_.options().timeout_ns,
                          core_.purposes().InStep(Purpose::Kind::kUpdate));
  }
  words.pop_back();
  if (ScalarsDiffer(words.back(), scalars, ranks)) return ExplainScalars(core_, call, scalars);
  words.pop_back();
  return requests;
}

absl::Status OptimizerDriver::AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose,
                                           const char* call) {
  const absl::Status status = core_.group().Run({.kind = OpKind::kAllReduce,
                                                 .dtype = WEFT_INT64,
                                                 .op = WEFT_SUM,
                                                 .count = words.size(),
                                                 .purpose = core_.purposes().InStep(purpose),
                                                 .in = words.data(),
                                                 .out = words.data(),
                                                 .timeout_ns = core_.options().timeout_ns});
  return core_.LatchUnlocked(Annotate(status, StrCat(call, ", adding norms: ")));
}

// In the order in which forward will want the params. If a gather cannot be started, this rank's own state is updated to the end
// all the same: it is still good for a checkpoint.
absl::Status OptimizerDriver::UpdateParams(double learning_rate, double gradient_factor) {
  constexpr char kCall[] = "optimizer_step";
  WEFT_RETURN_IF_ERROR(core_.Drain());  // of parts that the caller has updated
  ShardOptimizer& optimizer = *core_.runtime().optimizer;
  if (const absl::Status unheld = core_.AwaitUnheld(); !unheld.ok())
    return core_.GiveUp(kCall, Annotate(unheld, "waiting to update optimizer state: "));
  torn_ = true;
  optimizer.Begin(learning_rate, gradient_factor);
  absl::StatusOr<std::vector<int64_t>> norms = optimizer.StartNorms(core_.runtime().storage);
  if (!norms.ok()) return core_.GiveUp(kCall, norms.status());
  if (!norms->empty())
    WEFT_RETURN_IF_ERROR(AddOverRanks(*norms, Purpose::Kind::kParamNorms, kCall));
  optimizer.TakeNorms(*norms);
  absl::Status gathering;
  const std::vector<Bucket>& buckets = core_.runtime().layout.buckets;
  for (size_t i = buckets.size(); i > 0; --i) {
    for (const int extent : buckets[i - 1].pack.extents) {
      const absl::Status updated = optimizer.Update(core_.runtime().storage, extent);
      if (!updated.ok()) return core_.GiveUp(kCall, updated);
    }
    if (!gathering.ok()) continue;
    Section section(core_.mutex);
    if (core_.runtime().callers_turn.HasBucket(static_cast<int>(i - 1))) continue;
    gathering = core_.Latch(core_.runtime().updates.Start(static_cast<int>(i - 1)));
  }
  if (const absl::Status ended = optimizer.End(); !ended.ok()) return core_.GiveUp(kCall, ended);
  torn_ = false;
  return gathering;
}

}  // namespace weft
