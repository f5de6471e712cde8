// The same bits must come out in every run and with every strategy, so nothing here depends on
// time, and every rank makes the same calls, also one that has no windows left in Evaluate(). The
// loss is summed before the update, because the update leaves gathers of params under way, which
// the sum would wait behind.
#include "trainer/train.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/stop_signals.h"
#include "trainer/text_generator.h"

namespace weft::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const TrainConfig& Checked(const TrainConfig& config, weft_group_t group) {
  int size = 1;
  Check(weft_group_size(group, &size), "asking for the group's size");
  CheckConfig(config, size_t(size));
  return config;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const TrainingText& text, weft_group_t group)
    : config_(Checked(config, group)),
      text_(text),
      units_(ModelUnits(config.model)),
      parallel_(group, units_, config),
      matmul_(MakeMatmul<float>(config.precision)),
      micro_batch_(LargestMicroBatch(config, parallel_.size())),
      sampler_(text.train.size(), config.model.seq, config.global_batch, config.seed),
      trace_(config.trace_last == 0
                 ? nullptr
                 : std::make_unique<StepTrace>(parallel_, config.trace_first, config.trace_last)),
      model_(config.model, micro_batch_, *matmul_,
             trace_ ? static_cast<UnitHooks<float>&>(*trace_) : parallel_),
      evaluation_(config.model, micro_batch_, parallel_, model_),
      activations_(std::in_place, config.model, micro_batch_, config.recompute,
                   model_.input_type()),
      batch_(config.model.seq, micro_batch_) {
  if (text.validation.size() <= config.model.seq) {
    throw BadInput(
        fmt::format("the validation text has {} tokens, --seq {} needs at least {}; give more data "
                    "or a smaller "
                    "--seq",
                    text.validation.size(), config.model.seq, config.model.seq + 1));
  }
#ifdef _OPENMP
  omp_set_num_threads(config.threads);  // of this thread's parallel regions
#endif
}

Activations<float>& Trainer::Kept() {
  if (!activations_)
    activations_.emplace(config_.model, micro_batch_, config_.recompute, model_.input_type());
  return *activations_;
}

bool Trainer::AskedToEnd() {
  requests_ = parallel_.Any(PendingRequests());
  return StopCode(requests_) != 0;
}

Share Trainer::ShareOfMicroBatch(size_t micro) const {
  return ShareOf(config_.global_batch, parallel_.size() * config_.accumulate,
                 parallel_.rank() * config_.accumulate + micro);
}

std::vector<size_t> Trainer::OffsetsOf(size_t index, const Share& share) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < share.count; i++)
    offsets.push_back(sampler_.Offset(index, share.first + i));
  return offsets;
}

void Trainer::AnnounceStep(size_t index) {
  for (size_t micro = 0; micro < config_.accumulate; micro++) {
    for (const size_t offset : OffsetsOf(index, ShareOfMicroBatch(micro)))
      text_.train.WillRead(offset, batch_.window_tokens());
  }
}

StepRecord Trainer::Step(size_t index) {
  try {
    return TryStep(index);
  } catch (const std::exception& error) {
    parallel_.Abort(error.what());
    throw;
  }
}

double Trainer::Compute(size_t index, double loss_scale) {
  const double tokens = double(config_.global_batch * config_.model.seq);
  // Each token of the step counts alike, whichever rank has it: the context averages over ranks,
  // however many tokens each of them has.
  const double scale = double(parallel_.size()) / tokens * loss_scale;
  double loss = 0;
  AnnounceStep(index + 1);
  for (size_t micro = 0; micro < config_.accumulate; micro++) {
    const Share share = ShareOfMicroBatch(micro);
    const std::vector<size_t> offsets = OffsetsOf(index, share);
    batch_.Fill(text_.train, offsets);
    phases_.End(Phase::kData);
    // Their places and not their bytes: texts repeat themselves.
    const bool check = config_.check_samples > 0 && index % config_.check_samples == 0;
    if (check && micro == 0) {
      parallel_.CheckSamples(offsets.data(), offsets.size() * sizeof offsets[0]);
      phases_.End(Phase::kReduce);
    }
    parallel_.BeginMicrobatch(micro, micro + 1 == config_.accumulate);
    model_.Forward(batch_.inputs(), share.count, Kept(),
                   Dropout(config_.dropout, config_.seed, index, share.first));
    phases_.End(Phase::kForward);
    loss += model_.Backward(batch_.inputs(), batch_.targets(), share.count, scale, Kept());
    parallel_.EndMicrobatch();
    phases_.End(Phase::kBackward);
  }
  return loss;
}

size_t Trainer::TokensOf(size_t rank) const {
  const size_t parts = parallel_.size() * config_.accumulate;
  const Share first = ShareOf(config_.global_batch, parts, rank * config_.accumulate);
  const Share last = ShareOf(config_.global_batch, parts, (rank + 1) * config_.accumulate - 1);
  return (last.first + last.count - first.first) * config_.model.seq;
}

// In the order of the ranks, so that all have the same bits.
void Trainer::TakeLoss(double own, StepRecord& record) {
  const std::vector<double> losses = parallel_.Gather(own);
  double sum = 0;
  record.loss_max = -std::numeric_limits<double>::infinity();
  for (size_t rank = 0; rank < losses.size(); rank++) {
    sum += losses[rank];
    record.loss_max = std::max(record.loss_max, losses[rank] / double(TokensOf(rank)));
  }
  record.loss = sum / double(record.tokens);
  if (!std::isfinite(record.loss)) record.loss_max = record.loss;
}

void Trainer::Update(StepRecord& record) {
  record.statistics = last_.statistics;
  weft_shard_norm_t norm = {};
  const bool guard = config_.outlier_z > 0;
  if (guard) {
    norm = parallel_.GradientNorm();
    record.outlier = norm.nonfinite == 0 &&
                     IsOutlier(last_.statistics, config_.outlier_z, record.loss, norm.norm);
  }
  if (record.outlier) {
    parallel_.DropGradients();
    record.grad_norm = norm.norm;
    record.skipped = true;
    record.requests = parallel_.Any(TakeRequests());
    return;
  }
  const weft_shard_update_result_t update =
      parallel_.Update(record.lr, config_.grad_clip, TakeRequests(), guard ? &norm : nullptr);
  record.grad_norm = update.grad_norm;
  record.requests = update.requests;
  record.skipped = update.skipped != 0;
  if (guard && !record.skipped)
    record.statistics = After(last_.statistics, record.loss, record.grad_norm);
}

StepRecord Trainer::TryStep(size_t index) {
  const auto start = Clock::now();
  if (trace_) trace_->BeginStep(index + 1);
  phases_.Begin(trace_.get());
  parallel_.BeginStep();
  phases_.End(Phase::kBackward);  // it clears the gradients
  StepRecord& record = record_;
  record = {};
  record.loss_scale = parallel_.loss_scale();
  const double loss = Compute(index, record.loss_scale);
  const StepWaits waits = parallel_.Finish();
  record.step = index + 1;
  record.tokens = config_.global_batch * config_.model.seq;
  record.rank_tokens = TokensOf(parallel_.rank());
  record.lr = LearningRate(config_, index);
  // Before the update, which leaves gathers of parameters under way.
  const auto before_sum = Clock::now();
  TakeLoss(loss, record);
  record.comm_exposed_s = waits.Sum() + SecondsSince(before_sum);
  phases_.End(Phase::kReduce);
  phases_.Move(Phase::kForward, Phase::kGather, waits.gather_forward_s);
  phases_.Move(Phase::kBackward, Phase::kGather, waits.gather_backward_s);
  record.seconds = SecondsSince(start);  // if the update is all that is done of the rest
  const double before_update = record.seconds;
  Update(record);
  steps_done_ = int64_t(record.step);
  last_ = record;
  if (config_.elastic) updates_ = parallel_.update_count();
  parallel_.EndStep();
  phases_.End(Phase::kOptimizer);
  if (trace_) trace_->EndStep(parallel_.step_result());
  record.phases = phases_.seconds();
  record.seconds = SecondsSince(start);
  record.update_s = record.seconds - before_update;
  last_ = record;
  // A step whose gradients are not finite was skipped; there may be a few, and weft counts them.
  if (!std::isfinite(record.loss) && !record.skipped) {
    throw RunFailure(
        fmt::format("step {}: the loss is no longer a number; use a smaller --lr", record.step));
  }
  return record;
}

std::optional<double> Trainer::Evaluate(const std::vector<size_t>& offsets) {
  return evaluation_.MeanLoss(text_.validation, offsets, Kept(), [this] { return AskedToEnd(); });
}

std::vector<Token> Trainer::Generate(std::vector<Token> text, size_t count, double temperature,
                                     size_t top, size_t below) {
  const TokenChoice choice = {temperature, top, config_.seed};
  activations_.reset();
  TextGenerator generator(config_.model, parallel_, text, size_t(config_.threads), below);
  const size_t look_every = ForwardsBetweenLooks(config_.model, 1);
  for (size_t i = 0; i < count; i++) {
    if (i % look_every == 0 && AskedToEnd()) break;
    text.push_back(generator.Next(choice));
  }
  return text;
}

}  // namespace weft::trainer
