// A rank may be lost in any collective call, also in a validation or while the others make
// themselves anew, so all of them stand in one loop: whatever failed, it goes on from what has been
// done, not from where it was. A rank that has joined begins where the others go on, with the same
// calls.
#include "trainer/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "trainer/agreement.h"
#include "trainer/chrome_trace.h"
#include "trainer/stop_signals.h"
#include "trainer/verdict.h"

namespace weft::trainer {

Run::Run(const ProgramConfig& config, weft_group_t group)
    : config_(config),
      members_(group),
      start_(std::chrono::steady_clock::now()),
      clock_start_(std::chrono::system_clock::now()),
      data_(config.data, ProgramDirectory()),
      identity_(data_.Identity()),
      validation_(data_, config.train) {
  TakeVocabulary();
  uint32_t epoch = 1;
  Check(weft_group_epoch(group, &epoch), "asking how often the group was made");
  if (epoch > 1) return;  // it joins a run that others have begun
  facts_.size_at_first = members_.size();
  facts_.time = RankTime(members_.size(), start_);
  Agree();
}

// A model of bytes, which nobody has asked for, takes the vocabulary of the tokens that it is to
// read.
void Run::TakeVocabulary() {
  size_t& vocabulary = config_.train.model.vocabulary;
  if (vocabulary == ModelConfig().vocabulary && data_.vocabulary() > vocabulary)
    vocabulary = data_.vocabulary();
  data_.CheckVocabulary(vocabulary);
}

void Run::Agree() {
  config_.train.precision = AgreeOnPrecision(members_.group(), config_);
  config_.train = WithDefaults(config_.train, facts_.size_at_first);
  const ResolvedConfig resolved = Resolved();
  AgreeOnConfig(members_.group(), resolved);
  facts_.precision = config_.train.precision;
  facts_.config_digest = Digest(resolved);
}

ResolvedConfig Run::Resolved() const {
  return ResolveConfig(config_, identity_, facts_.size_at_first);
}

int Run::ToTheEnd() {
  try {
    return GoToTheEnd();
  } catch (...) {
    report_.reset();
    if (folder_ && last_.step == 0) folder_->Release();
    throw;
  }
}

int Run::GoToTheEnd() {
  std::optional<LostRank> lost;
  for (;;) {
    try {
      if (lost.has_value()) {
        KeepState();
        GoOn(members_.GoOnWithout(*lost));
      } else if (facts_.size_at_first == 0) {
        GoOn("");
      }
      if (trainer_ == nullptr) Begin();
      Train();
      if (StopCode(requests_) == 0) End();
      return Close();
    } catch (const WeftFailure& failure) {
      if (config_.train.elastic) lost = LossOf(failure, members_.group());
      if (!lost.has_value()) throw;
    }
  }
}

void Run::Train() {
  while (facts_.reported < config_.train.steps && StopCode(requests_) == 0) {
    // Those that have joined begin here, too.
    if (config_.train.elastic && TakeInNewcomers()) continue;
    EndStep(trainer_->Step(facts_.reported));
  }
}

std::optional<double> Run::Validate(size_t step) {
  const TrainConfig& t = config_.train;
  const bool last = step == t.steps;
  if (!last && (t.eval_every == 0 || step % t.eval_every != 0)) return std::nullopt;
  const std::optional<double> val_loss =
      trainer_->Evaluate(last ? validation_.many() : validation_.some());
  requests_ |= trainer_->requests();
  if (!val_loss) return val_loss;
  validated_ = last;
  const RankReports since = trainer_->parallel().Report();
  if (report_) report_->SetSlowest(DescribeSlowest(since.summary));
  return val_loss;
}

void Run::Save(Checkpoints& checkpoints, StepRecord& record) {
  const auto before = std::chrono::steady_clock::now();
  checkpoints.Save(record, trainer_->PlaceOf(record.step));
  record.phases[Phase::kCheckpoint] +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

void Run::SaveIfDue(StepRecord& record) {
  if (checkpoints_ == nullptr) {
    const bool asked = (record.requests & kRequestSave) != 0;
    if (asked && report_) report_->Say("SIGUSR1: nothing is saved without --checkpoint-every");
    return;
  }
  const bool due = record.step % config_.checkpoint_every == 0 ||
                   record.step == config_.train.steps || requests_ != 0;
  if (due) Save(*checkpoints_, record);
}

void Run::EndStep(StepRecord record) {
  if (record.step > last_.step) traffic_ = trainer_->parallel().step_result();
  requests_ = record.requests;
  last_ = record;
  SaveIfDue(record);
  std::optional<double> val_loss;
  if (StopCode(requests_) == 0) val_loss = Validate(record.step);
  if (val_loss && best_ != nullptr) SaveIfBest(record, *val_loss);
  // Asked to end in the validation: what is done is saved.
  if (StopCode(requests_) != 0) SaveIfDue(record);
  figures_.Add(record);
  std::vector<RankFigures> ranks;
  if (FiguresAreDue(record.step, config_.train.steps))
    ranks = ExchangeFigures(members_.group(), figures_);
  WriteTraceIfDue(record.step);
  if (record.step <= facts_.reported) return;  // this rank had come so far before another was lost
  if (std::isfinite(record.loss)) facts_.curve.train.push_back({double(record.step), record.loss});
  if (val_loss) facts_.curve.validation.push_back({double(record.step), *val_loss});
  if (report_) report_->Add(record, val_loss, ranks);
  facts_.reported = record.step;
}

void Run::WriteTraceIfDue(size_t step) {
  const TrainConfig& t = config_.train;
  if (t.trace_last == 0 || step != std::min(t.trace_last, t.steps)) return;
  const std::vector<RankTrace> ranks = GatherTraces(members_.group(), trainer_->trace());
  const bool any = std::ranges::any_of(ranks, [](const RankTrace& r) { return !r.events.empty(); });
  if (report_ && any) report_->WriteTrace(ChromeTraceOf(ranks, ModelUnits(t.model)));
}

// As rank 0 knows it: a rank that has joined, or gone on from a checkpoint, has not seen all
// validations.
void Run::SaveIfBest(StepRecord& record, double val_loss) {
  const std::string best = HearOfFirst(members_.group(), [&] {
    for (const CurvePoint& point : facts_.curve.validation) {
      if (point.step < double(record.step) && !(val_loss < point.loss)) return std::string();
    }
    return std::string("best");
  });
  if (!best.empty()) Save(*best_, record);
}

}  // namespace weft::trainer
