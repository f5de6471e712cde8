// A rank may be lost in any collective call, also in a validation or while the others make themselves anew, so all of them stand in
// one loop: whatever failed, it goes on from what has been done, not from where it was. A rank that has joined begins where the others go
// on, with the same calls.
#include "trainer/run.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>
#include <new>
#include <numeric>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include "weft/collective.h"
#include "weft/error.h"

#include "trainer/agreement.h"
#include "trainer/configuration/config_file.h"
#include "trainer/order3.h"
#include "trainer/run_files.h"
#include "trainer/stop_signals.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

// For processes that have said that they would join, to come and meet the others.
constexpr std::chrono::milliseconds kAskEvery{100};
constexpr int64_t kTakeInNs = 10'000'000'000;

std::string ProgramDirectory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

// Mean loss of the order-3 model on the bytes that the trained model is judged by.
double Order3Loss(const Corpus& corpus, const std::vector<size_t>& offsets, size_t seq,
                  const std::function<void(double)>& progress) {
  const Order3Model model(corpus.train, progress);
  double witten_bell = 0, kneser_ney = 0;
  for (const size_t offset : offsets) {
    for (size_t i = offset + ContextBytes(seq) + 1; i <= offset + seq; i++) {
      witten_bell += model.Loss(corpus.validation, i, Smoothing::kWittenBell);
      kneser_ney += model.Loss(corpus.validation, i, Smoothing::kKneserNey);
    }
  }
  return std::min(witten_bell, kneser_ney) / double(offsets.size() * (seq - ContextBytes(seq)));
}

// What the sample continues: the first context in the middle of the validation text that is mostly
// not white space. From a lone newline a model of source code likes to indent for ever.
std::string Prompt(const Corpus& corpus, const std::vector<size_t>& offsets, size_t seq) {
  std::string prompt;
  for (size_t i = offsets.size() / 2; i < offsets.size(); i++) {
    prompt = corpus.validation.substr(offsets[i], ContextBytes(seq));
    const auto blank = std::count_if(prompt.begin(), prompt.end(),
                                     [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
    if (size_t(blank) * 4 <= prompt.size()) break;
  }
  return prompt;
}

}  // namespace

Run::Run(const ProgramConfig& config, weft_group_t group)
    : config_(config),
      group_(group),
      start_(std::chrono::steady_clock::now()),
      clock_start_(std::chrono::system_clock::now()),
      corpus_(LoadCorpus(config.data, ProgramDirectory())),
      some_(SpreadWindows(corpus_.validation.size(), config.train.model.seq,
                          config.train.eval_windows)),
      many_(SpreadWindows(corpus_.validation.size(), config.train.model.seq,
                          config.train.final_windows)) {
  AskGroup();
  uint32_t epoch = 1;
  Check(weft_group_epoch(group_, &epoch), "asking how often the group was made");
  if (epoch > 1) return;  // it joins a run that others have begun
  facts_.size_at_first = size_;
  Agree();
}

void Run::Agree() {
  config_.train.precision = AgreeOnPrecision(group_, config_);
  config_.train = WithDefaults(config_.train, facts_.size_at_first);
  const ResolvedConfig resolved = Resolved();
  AgreeOnConfig(group_, resolved);
  facts_.precision = config_.train.precision;
  facts_.config_digest = Digest(resolved);
}

void Run::AgreeWithNewcomers() {
  TrainConfig& t = config_.train;
  if (config_.best_precision && PrecisionSupported(facts_.precision))
    t.precision = facts_.precision;
  t = WithDefaults(t, facts_.size_at_first);
  const ResolvedConfig own = Resolved();
  const std::string differences = WhereRanksDiffer(group_, own);
  if (differences.empty()) return;
  if (Digest(own) != facts_.config_digest) {
    throw NotOfThisRun("this rank cannot join the run, which trains something else: " +
                       differences + "; give it the options and data of the others");
  }
  if (report_)
    report_->Say("a new rank cannot join, as it would train something else: " + differences);
  // Until it has ended, which is a loss like any other.
  Check(weft_barrier(group_, nullptr, nullptr), "going on without a rank that cannot join");
}

ResolvedConfig Run::Resolved() const {
  return ResolveConfig(config_, corpus_, facts_.size_at_first);
}

void Run::AskGroup() {
  int rank = 0, size = 1;
  Check(weft_group_rank(group_, &rank), "asking for the rank");
  Check(weft_group_size(group_, &size), "asking for the group's size");
  rank_ = size_t(rank);
  size_ = size_t(size);
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
        GoOnWithout(*lost);
      } else if (facts_.size_at_first == 0) {
        GoOn("");
      }
      if (trainer_ == nullptr) Begin();
      Train();
      if (StopCode(requests_) == 0) End();
      return Close();
    } catch (const WeftFailure& failure) {
      lost = WhoWasLost(failure);
      if (!lost.has_value()) throw;
    }
  }
}

// A stop code says that what was done is saved, and 0 that all of the run is there: neither is said of a run that has not written
// everything, on any rank.
int Run::Close() {
  if (checkpoints_ != nullptr && last_.step > 0)
    checkpoints_->Save(last_, trainer_->PlaceOf(last_.step));
  const bool saved = AllSay(group_, checkpoints_ == nullptr || checkpoints_->Finish());
  if (StopCode(requests_) != 0) SayStopped(saved);
  const bool written = AllSay(group_, report_ == nullptr || report_->Finish());
  return saved && written ? StopCode(requests_) : kExitNotWritten;
}

std::optional<LostRank> Run::WhoWasLost(const WeftFailure& failure) const {
  if (!config_.train.elastic) return std::nullopt;
  if (failure.result() == WEFT_PEER_LOST) return LostRank{failure.world_rank(), failure.pid()};
  // Calls after the one that met the death are ABORTED; the group knows the cause.
  if (weft_group_error(group_) != WEFT_PEER_LOST) return std::nullopt;
  weft_error_info_t info = {};
  info.struct_size = sizeof info;
  weft_last_error_info(&info);
  return LostRank{info.world_rank, info.pid};
}

// Ranks that save, and any rank of an elastic run, have to know where rank 0 writes. Ranks that begin again have it already.
void Run::ClaimFolder() {
  if (!facts_.directory.empty()) return;
  facts_.directory = HearOfFirst(group_, [this] {
    folder_.emplace(config_, ConfigText(Resolved(), size_), clock_start_);
    folder_->Claim();
    return folder_->directory();
  });
  // A job that is started again goes on with what it has done itself, whatever it began with.
  const std::string own = HearOfFirst(group_, [this] {
    return std::string(config_.restarts > 0 && HasCheckpoint(OwnCheckpoints()) ? "own" : "");
  });
  resume_own_ = !own.empty();
}

std::string Run::OwnCheckpoints() const {
  return facts_.directory + "/checkpoints";
}

Origin Run::MakeOrigin() const {
  return {config_, Resolved(), group_, OwnCheckpoints(), resume_own_};
}

void Run::Begin() {
  CheckConfig(config_.train, size_);
  ClaimFolder();
  const RunPlan plan = PlanRun(config_.train, rank_, size_);
  DecideOnFirst(group_, [&] { PrintPlan(plan); });
  CheckMemory(group_, plan);
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
  DecideOnFirst(group_, [&] {
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
}

void Run::PrintPlan(const RunPlan& plan) const {
  const std::string text = DescribeNotes(config_) + DescribeCorpus(corpus_) +
                           DescribePlan(config_.train, plan, size_, corpus_.train.size());
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return;
  throw NotWritten(fmt::format("writing the output: {}", std::strerror(errno)));
}

// What is free may be gone a moment later, or not be this user's to take.
std::unique_ptr<Trainer> Run::MakeTrainer(const RunPlan& plan) const {
  std::string reason;
  try {
    return std::make_unique<Trainer>(config_.train, corpus_, group_);
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
  report_ = std::make_unique<Report>(t, facts_.directory, facts_.reported);
  for (const std::string& note : folder_ ? folder_->notes() : std::vector<std::string>())
    report_->Say(note);
  report_->Print(DescribeBalance(kept));
  CountOrder3();
  report_->Print("\n");
  if (values != nullptr) report_->Print(DescribeValues(*values, size_));
  if (resumed != nullptr) SayResumed(*resumed);
  report_->CheckWritten();  // before the work is done, and not after it
  report_->SetStart(facts_.training_start);
}

void Run::SayResumed(const Resumed& resumed) {
  report_->Print(DescribeResumed(resumed, size_, config_.train.steps));
  report_->Print(report_->FillUpTo(resumed.last));
  TakeCurveFromMetrics();
  if (facts_.curve.train.empty())
    facts_.curve.train.push_back({double(resumed.last.step), resumed.last.loss});
}

void Run::CountOrder3() {
  const size_t seq = config_.train.model.seq;
  if (!WantsOrder3(config_, corpus_.train.size())) {
    if (config_.order3 == Order3Choice::kOff) return;
    report_->Print(fmt::format(
        "       no order-3 byte model is compared with: counting more than {} takes too long; "
        "--order3 on does it\n",
        FormatBytes(kOrder3BytesMax)));
    return;
  }
  const auto progress = [&](double share) {
    report_->ShowWork("counting bytes for the order-3 model", share);
  };
  facts_.curve.order3 = Order3Loss(corpus_, many_, seq, progress);
  report_->EndWork();
  report_->Print(
      fmt::format("       an order-3 byte model has {:.4f} nats per byte on {} validation bytes\n",
                  facts_.curve.order3, many_.size() * (seq - ContextBytes(seq))));
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
  const std::optional<double> val_loss = trainer_->Evaluate(last ? many_ : some_);
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
  // Asked to end in the validation: what is done is saved.
  if (StopCode(requests_) != 0) SaveIfDue(record);
  if (record.step <= facts_.reported) return;  // this rank had come so far before another was lost
  if (std::isfinite(record.loss)) facts_.curve.train.push_back({double(record.step), record.loss});
  if (val_loss) facts_.curve.validation.push_back({double(record.step), *val_loss});
  if (report_) report_->Add(record, val_loss);
  facts_.reported = record.step;
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
      trainer_->Generate(Prompt(corpus_, many_, t.model.seq), t.sample_bytes, kTemperature, kTop);
  requests_ |= trainer_->requests();
  if (!report_ || StopCode(requests_) != 0 || end_printed_) return;
  end_printed_ = true;
  report_->PrintEnd(t, facts_.curve, facts_.curve.validation.back().loss, sample, size_);
  report_->Print(fmt::format(
      "       {:.1f} s in all\n",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()));
}

void Run::KeepState() {
  if (trainer_ == nullptr) return;
  checkpoints_.reset();
  TrainState taken = trainer_->TakeState();
  if (taken.steps_done != TrainState::kNone) state_ = std::move(taken);
  trainer_.reset();
}

void Run::GoOnWithout(const LostRank& lost) {
  const size_t before = size_;
  KeepState();
  Check(weft_group_reconfigure(group_, nullptr, 0, nullptr), "going on without the lost rank");
  AskGroup();
  std::string who = fmt::format("rank {} (pid {})", lost.world_rank, lost.pid);
  if (before > size_ + 1) who += fmt::format(" and {} more", before - size_ - 1);
  GoOn(who + " was lost");
}

// Rank 0 asks who waits, between two steps; the others are told, so all make the same calls. If those that were to join do not come, or
// one of them dies on the way, all go on as before.
bool Run::TakeInNewcomers() {
  int32_t count = 0;
  const auto now = std::chrono::steady_clock::now();
  if (rank_ == 0 && size_ < facts_.size_at_first && now - asked_ >= kAskEvery) {
    asked_ = now;
    const weft_result_t asked = weft_group_newcomers(group_, nullptr, &count);
    if (asked != WEFT_SUCCESS) count = 0;  // INVALID_USAGE: weftrun has not started this job
    count = std::min(count, int32_t(facts_.size_at_first - size_));
  }
  Check(weft_broadcast(&count, &count, 1, WEFT_INT32, 0, group_, nullptr, nullptr),
        "telling who waits to join");
  if (count == 0) return false;
  KeepState();
  std::vector<int> members(size_ + size_t(count), WEFT_NEW_RANK);
  std::iota(members.begin(), members.begin() + long(size_), 0);
  weft_group_config_t config = {};
  config.struct_size = sizeof config;
  config.init_timeout_ns = kTakeInNs;
  std::string change =
      count == 1 ? "a new rank has joined" : fmt::format("{} new ranks have joined", count);
  if (weft_group_reconfigure(group_, members.data(), int(members.size()), &config) !=
      WEFT_SUCCESS) {
    change = fmt::format("no new rank has joined ({})", weft_last_error());
    // A group that has ended meanwhile is made anew of those that live.
    if (weft_group_error(group_) != WEFT_SUCCESS) {
      Check(weft_group_reconfigure(group_, nullptr, 0, nullptr), "going on without new ranks");
    }
  }
  AskGroup();
  GoOn(change);
  return true;
}

void Run::GoOn(const std::string& change) {
  ShareFacts(group_, facts_);
  AgreeWithNewcomers();
  AgreeOnState(group_, state_);
  if (state_.steps_done == TrainState::kNone) {
    if (rank_ == 0)
      Complain(fmt::format("{}; {} again", change, Counted(size_, "rank begins", "ranks begin")));
    return;
  }
  trainer_ = std::make_unique<Trainer>(config_.train, corpus_, group_);
  trainer_->GoOnFrom(state_);
  last_ = state_.last;
  if (config_.checkpoint_every > 0) checkpoints_ = MakeOrigin().MakeCheckpoints(*trainer_);
  state_.values = std::vector<float>();  // the trainer has them; {} would keep the memory
  if (rank_ == 0 && !report_) BecomeFirst();
  if (report_) SayWhoGoesOn(change);
  // The last step may not have been validated and reported by all.
  int64_t reported = int64_t(facts_.reported);
  Check(weft_all_reduce(&reported, &reported, 1, WEFT_INT64, WEFT_MIN, group_, nullptr, nullptr),
        "comparing what has been reported");
  if (state_.steps_done > reported) EndStep(state_.last);
}

// "rank 2 (pid 4711) was lost at step 41; 3 ranks go on from step 41 with the weights of step 40, 6 sequences a step, 2 on each rank".
void Run::SayWhoGoesOn(const std::string& change) {
  report_->Say(fmt::format(
      "{} at step {}; {} on from step {} with the weights of step {}, "
      "{} sequences a step, {}",
      change, facts_.reported + 1, Counted(size_, "rank goes", "ranks go"), state_.steps_done + 1,
      state_.steps_done, config_.train.global_batch, DescribeShares(config_.train, size_)));
}

// Rank 0 may have died before it wrote what this rank takes for reported.
void Run::BecomeFirst() {
  report_ = std::make_unique<Report>(config_.train, facts_.directory, facts_.reported);
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
