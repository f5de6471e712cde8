// A rank may be lost in any collective call, also in a validation or while the others make themselves anew, so all of them stand in
// one loop: whatever failed, it goes on from what has been done, not from where it was. A rank that has joined begins where the others go
// on, with the same calls.
#include "trainer/run.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <new>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include "weft/collective.h"

#include "trainer/agreement.h"
#include "trainer/configuration/config_file.h"
#include "trainer/run_files.h"
#include "trainer/stop_signals.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

std::string ProgramDirectory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

}  // namespace

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
  Agree();
}

// A model of bytes, which nobody has asked for, takes the vocabulary of the tokens that it is to read.
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

void Run::AgreeWithNewcomers() {
  TrainConfig& t = config_.train;
  if (config_.best_precision && PrecisionSupported(facts_.precision))
    t.precision = facts_.precision;
  t = WithDefaults(t, facts_.size_at_first);
  const ResolvedConfig own = Resolved();
  const std::string differences = WhereRanksDiffer(members_.group(), own);
  if (differences.empty()) return;
  if (Digest(own) != facts_.config_digest) {
    throw NotOfThisRun("this rank cannot join the run, which trains something else: " +
                       differences + "; give it the options and data of the others");
  }
  if (report_)
    report_->Say("a new rank cannot join, as it would train something else: " + differences);
  // Until it has ended, which is a loss like any other.
  Check(weft_barrier(members_.group(), nullptr, nullptr),
        "going on without a rank that cannot join");
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

// A stop code says that what was done is saved, and 0 that all of the run is there: neither is said of a run that has not written
// everything, on any rank.
int Run::Close() {
  if (checkpoints_ != nullptr && last_.step > 0)
    checkpoints_->Save(last_, trainer_->PlaceOf(last_.step));
  const bool last_saved = checkpoints_ == nullptr || checkpoints_->Finish();
  const bool best_saved = best_ == nullptr || best_->Finish();
  const bool saved = AllSay(members_.group(), last_saved && best_saved);
  if (StopCode(requests_) != 0) SayStopped(saved);
  const bool written = AllSay(members_.group(), report_ == nullptr || report_->Finish());
  return saved && written ? StopCode(requests_) : kExitNotWritten;
}

// Ranks that save, and any rank of an elastic run, have to know where rank 0 writes. Ranks that begin again have it already.
void Run::ClaimFolder() {
  if (!facts_.directory.empty()) return;
  facts_.directory = HearOfFirst(members_.group(), [this] {
    folder_.emplace(config_, ConfigText(Resolved(), members_.size()), clock_start_);
    folder_->Claim();
    return folder_->directory();
  });
  // A job that is started again goes on with what it has done itself, whatever it began with.
  const std::string own = HearOfFirst(members_.group(), [this] {
    return std::string(config_.restarts > 0 && HasCheckpoint(OwnCheckpoints()) ? "own" : "");
  });
  resume_own_ = !own.empty();
}

std::string Run::OwnCheckpoints() const {
  return facts_.directory + "/checkpoints";
}

Origin Run::MakeOrigin() const {
  return {config_, Resolved(), members_.group(), OwnCheckpoints(), resume_own_};
}

void Run::Begin() {
  CheckConfig(config_.train, members_.size());
  ClaimFolder();
  const RunPlan plan = PlanRun(config_.train, members_.rank(), members_.size());
  DecideOnFirst(members_.group(), [&] { PrintPlan(plan); });
  CheckMemory(members_.group(), plan);
  std::unique_ptr<Trainer> trainer = MakeTrainer(plan);
  const RankReports kept = trainer->parallel().Report();
  const Origin origin = MakeOrigin();
  const std::optional<Resumed> resumed = origin.Resume(*trainer, &checkpoints_);
  // What a checkpoint may lack begins as it would without.
  if (!resumed && config_.init_partial) trainer->Begin();
  const std::optional<InitialValues> values =
      resumed ? std::nullopt : origin.TakeValues(*trainer, checkpoints_.get());
  if (resumed) facts_.reported = resumed->last.step;
  facts_.training_start = std::chrono::steady_clock::now();
  DecideOnFirst(members_.group(), [&] {
    if (resumed) origin.TakeMetricsAlong(facts_.directory);
    Introduce(kept, resumed ? &*resumed : nullptr, values ? &*values : nullptr);
  });
  if (resumed) {
    trainer->GoOnAfter(resumed->last, resumed->place);
  } else if (values) {
    trainer->GoOnAfter(StepRecord(), SamplePlace());
  } else {
    trainer->Begin();
  }
  trainer_ = std::move(trainer);
  if (config_.keep_best) best_ = MakeOrigin().MakeBest(*trainer_);
}

void Run::PrintPlan(const RunPlan& plan) const {
  const std::string text =
      DescribeNotes(config_) + data_.Describe() +
      DescribePlan(config_.train, plan, members_.size(), data_.text().train.size());
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return;
  throw NotWritten(fmt::format("writing the output: {}", std::strerror(errno)));
}

// What is free may be gone a moment later, or not be this user's to take.
std::unique_ptr<Trainer> Run::MakeTrainer(const RunPlan& plan) const {
  std::string reason;
  try {
    return std::make_unique<Trainer>(config_.train, data_.text(), members_.group());
  } catch (const WeftFailure& failure) {
    if (failure.result() != WEFT_OUT_OF_MEMORY) throw;
    reason = failure.what();
  } catch (const std::bad_alloc&) {
    reason = "there was no room for the activations";
  }
  throw RunFailure(
      fmt::format("the model does not fit into memory: {}; {}", DescribeMemory(plan), reason));
}

void Run::Introduce(const RankReports& kept, const Resumed* resumed, const InitialValues* values) {
  const TrainConfig& t = config_.train;
  report_ = std::make_unique<Report>(t, facts_.directory, facts_.reported, data_.unit());
  for (const std::string& note : folder_ ? folder_->notes() : std::vector<std::string>())
    report_->Say(note);
  report_->Print(DescribeBalance(kept));
  CountOrder3();
  report_->Print("\n");
  if (values != nullptr) report_->Print(DescribeValues(*values, members_.size()));
  if (resumed != nullptr) SayResumed(*resumed);
  report_->CheckWritten();  // before the work is done, and not after it
  report_->SetStart(facts_.training_start);
}

void Run::SayResumed(const Resumed& resumed) {
  report_->Print(DescribeResumed(resumed, members_.size(), config_.train.steps));
  report_->Print(report_->FillUpTo(resumed.last));
  TakeCurveFromMetrics();
  if (facts_.curve.train.empty())
    facts_.curve.train.push_back({double(resumed.last.step), resumed.last.loss});
}

void Run::CountOrder3() {
  const size_t bytes_max = Order3BytesMax(config_);
  if (bytes_max == 0 || data_.corpus() == nullptr) return;
  const auto progress = [&](double share) {
    report_->ShowWork("counting bytes for the order-3 model", share);
  };
  facts_.curve.order3 = validation_.Order3Loss(bytes_max, progress);
  report_->EndWork();
  const size_t bytes = data_.corpus()->train.size();
  report_->Print(fmt::format(
      "       an order-3 byte model{} has {:.4f} nats per byte on {} validation bytes\n",
      bytes > bytes_max ? fmt::format(" of {} of these", FormatBytes(bytes_max)) : "",
      facts_.curve.order3, validation_.judged_tokens()));
}

// So that the picture shows the whole run, and times go on.
void Run::TakeCurveFromMetrics() {
  for (const KeptLine& line : report_->kept()) {
    if (line.loss) facts_.curve.train.push_back({double(line.step), *line.loss});
    if (line.val_loss) facts_.curve.validation.push_back({double(line.step), *line.val_loss});
  }
  if (!report_->kept().empty())
    facts_.training_start -= std::chrono::nanoseconds(report_->kept().back().time_ns);
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

void Run::SaveIfDue(const StepRecord& record) {
  if (checkpoints_ == nullptr) {
    const bool asked = (record.requests & kRequestSave) != 0;
    if (asked && report_) report_->Say("SIGUSR1: nothing is saved without --checkpoint-every");
    return;
  }
  const bool due = record.step % config_.checkpoint_every == 0 ||
                   record.step == config_.train.steps || requests_ != 0;
  if (due) checkpoints_->Save(record, trainer_->PlaceOf(record.step));
}

void Run::EndStep(const StepRecord& record) {
  requests_ = record.requests;
  last_ = record;
  SaveIfDue(record);
  std::optional<double> val_loss;
  if (StopCode(requests_) == 0) val_loss = Validate(record.step);
  if (val_loss && best_ != nullptr) SaveIfBest(record, *val_loss);
  // Asked to end in the validation: what is done is saved.
  if (StopCode(requests_) != 0) SaveIfDue(record);
  if (record.step <= facts_.reported) return;  // this rank had come so far before another was lost
  if (std::isfinite(record.loss)) facts_.curve.train.push_back({double(record.step), record.loss});
  if (val_loss) facts_.curve.validation.push_back({double(record.step), *val_loss});
  if (report_) report_->Add(record, val_loss);
  facts_.reported = record.step;
}

// As rank 0 knows it: a rank that has joined, or gone on from a checkpoint, has not seen all validations.
void Run::SaveIfBest(const StepRecord& record, double val_loss) {
  const std::string best = HearOfFirst(members_.group(), [&] {
    for (const CurvePoint& point : facts_.curve.validation) {
      if (point.step < double(record.step) && !(val_loss < point.loss)) return std::string();
    }
    return std::string("best");
  });
  if (!best.empty()) best_->Save(record, trainer_->PlaceOf(record.step));
}

void Run::SayStopped(bool saved) const {
  if (!report_) return;
  std::string then = "; nothing is saved without --checkpoint-every";
  if (checkpoints_ != nullptr) {
    const std::string name = std::filesystem::path(facts_.directory).filename().string();
    then = saved ? fmt::format(", which is saved; --name {} --resume auto goes on from it", name)
                 : ", which could not be saved";
  }
  report_->Say(fmt::format("asked to end: stopped after step {}{}", facts_.reported, then));
}

void Run::End() {
  const TrainConfig& t = config_.train;
  // A run that was stopped in its last validation, and goes on.
  if (!validated_) {
    const std::optional<double> val_loss = Validate(t.steps);
    if (val_loss) facts_.curve.validation.push_back({double(t.steps), *val_loss});
    if (StopCode(requests_) != 0) return;
  }
  const std::string sample =
      data_.Decode(trainer_->Generate(validation_.Prompt(), t.sample_bytes, kTemperature, kTop,
                                      data_.vocabulary() == 0 ? SIZE_MAX : data_.vocabulary()));
  requests_ |= trainer_->requests();
  if (!report_ || StopCode(requests_) != 0 || end_printed_) return;
  end_printed_ = true;
  report_->PrintEnd(t, facts_.curve, facts_.curve.validation.back().loss, sample, members_.size());
  report_->Print(fmt::format(
      "       {:.1f} s in all\n",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()));
}

void Run::KeepState() {
  if (trainer_ == nullptr) return;
  checkpoints_.reset();
  best_.reset();
  TrainState taken = trainer_->TakeState();
  if (taken.steps_done != TrainState::kNone) state_ = std::move(taken);
  trainer_.reset();
}

bool Run::TakeInNewcomers() {
  const size_t count = members_.Waiting(facts_.size_at_first);
  if (count == 0) return false;
  KeepState();
  GoOn(members_.TakeIn(count));
  return true;
}

void Run::GoOn(const std::string& change) {
  ShareFacts(members_.group(), facts_);
  AgreeWithNewcomers();
  AgreeOnState(members_.group(), state_);
  if (state_.steps_done == TrainState::kNone) {
    if (members_.rank() == 0)
      Complain(fmt::format("{}; {} again", change,
                           Counted(members_.size(), "rank begins", "ranks begin")));
    return;
  }
  trainer_ = std::make_unique<Trainer>(config_.train, data_.text(), members_.group());
  trainer_->GoOnFrom(state_);
  last_ = state_.last;
  if (config_.checkpoint_every > 0) checkpoints_ = MakeOrigin().MakeCheckpoints(*trainer_);
  if (config_.keep_best) best_ = MakeOrigin().MakeBest(*trainer_);
  state_.values = std::vector<std::byte>();  // the trainer has them; {} would keep the memory
  if (members_.rank() == 0 && !report_) BecomeFirst();
  if (report_) SayWhoGoesOn(change);
  // The last step may not have been validated and reported by all.
  int64_t reported = int64_t(facts_.reported);
  Check(weft_all_reduce(&reported, &reported, 1, WEFT_INT64, WEFT_MIN, members_.group(), nullptr,
                        nullptr),
        "comparing what has been reported");
  if (state_.steps_done > reported) EndStep(state_.last);
}

// "rank 2 (pid 4711) was lost at step 41; 3 ranks go on from step 41 with the weights of step 40, 6 sequences a step, 2 on each rank".
void Run::SayWhoGoesOn(const std::string& change) {
  report_->Say(
      fmt::format("{} at step {}; {} on from step {} with the weights of step {}, "
                  "{} sequences a step, {}",
                  change, facts_.reported + 1, Counted(members_.size(), "rank goes", "ranks go"),
                  state_.steps_done + 1, state_.steps_done, config_.train.global_batch,
                  DescribeShares(config_.train, members_.size())));
}

// Rank 0 may have died before it wrote what this rank takes for reported.
void Run::BecomeFirst() {
  report_ =
      std::make_unique<Report>(config_.train, facts_.directory, facts_.reported, data_.unit());
  // Ranks begin one after the other, and the times of a run only grow.
  if (!report_->kept().empty()) {
    const auto shown = std::chrono::nanoseconds(report_->kept().back().time_ns);
    facts_.training_start =
        std::min(facts_.training_start, std::chrono::steady_clock::now() - shown);
  }
  report_->SetStart(facts_.training_start);
  facts_.reported = std::min(facts_.reported, report_->last_step());
  for (std::vector<CurvePoint>* points : {&facts_.curve.train, &facts_.curve.validation}) {
    while (!points->empty() && points->back().step > double(facts_.reported))
      points->pop_back();
  }
  CountOrder3();
}

}  // namespace weft::trainer
