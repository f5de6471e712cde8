// Everything before the first step: the folder, the plan, memory, where the run begins, and what
// rank 0 says of it.
#ifdef _OPENMP
#include <omp.h>
#endif

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include <fmt/core.h>

#include "trainer/configuration/config_file.h"
#include "trainer/run.h"
#include "trainer/verdict.h"

namespace weft::trainer {

// Ranks that save, and any rank of an elastic run, have to know where rank 0 writes. Ranks that
// begin again have it already.
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
  MeasureRate(plan);
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

// All ranks measure at once, as they will compute at once.
void Run::MeasureRate(const RunPlan& plan) {
  constexpr double kSeconds = 0.1;
  const TrainConfig& t = config_.train;
  const size_t rows = LargestMicroBatch(t, members_.size()) * t.model.seq;
  if (!config_.report || !GemmRateIsCheap(t.model, rows, plan.Bytes())) return;
#ifdef _OPENMP
  omp_set_num_threads(t.threads);
#endif
  const std::unique_ptr<Matmul<float>> matmul = MakeMatmul<float>(t.precision);
  gemm_ = MeasureGemmRate(t.model, rows, *matmul, kSeconds);
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
  report_.reset();  // of a run that begins again: what it had started ends first
  report_ = std::make_unique<Report>(config_, facts_.directory, facts_.reported, data_.unit());
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

}  // namespace weft::trainer
