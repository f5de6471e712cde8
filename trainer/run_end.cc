// How a run ends: at its last step with a validation, a sample and a report, or because it was
// asked to.
#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "trainer/reports/run_report.h"
#include "trainer/run.h"
#include "trainer/stop_signals.h"
#include "trainer/verdict.h"

namespace weft::trainer {

// A stop code says that what was done is saved, and 0 that all of the run is there: neither is said
// of a run that has not written everything, on any rank.
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

std::vector<RunFile> Run::ReportFiles() const {
  if (!config_.report) return {};
  const auto now = std::chrono::steady_clock::now();
  const ReportFacts facts = {
      .config = config_,
      .done = report_->done(),
      .curve = facts_.curve,
      .name = std::filesystem::path(facts_.directory).filename().string(),
      .unit = data_.unit(),
      .final_loss = facts_.curve.validation.back().loss,
      .ranks = members_.size(),
      .seconds = facts_.time.Seconds(now),
      .rank_seconds = facts_.time.RankSeconds(now),
      .ranks_changed = facts_.time.changed(),
      .plan = PlanRun(config_.train, members_.rank(), members_.size()),
      .traffic = traffic_,
      .gemm = gemm_,
  };
  const Page page = MakeRunReport(facts);
  return {{"report.html", HtmlOf(page)}, {"report.md", MarkdownOf(page)}};
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
  report_->PrintEnd(t, facts_.curve, facts_.curve.validation.back().loss, sample, members_.size(),
                    ReportFiles());
  report_->Print(fmt::format("       {:.1f} s in all\n",
                             facts_.time.Seconds(std::chrono::steady_clock::now())));
}

}  // namespace weft::trainer
