// What an elastic run does when ranks are lost or join: those that are there agree on a state, and
// go on from it with a trainer on the group that they have now.
#include <algorithm>

#include <fmt/core.h>

#include "weft/collective.h"

#include "trainer/agreement.h"
#include "trainer/run.h"

namespace weft::trainer {

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
  facts_.time.Change(members_.size(), std::chrono::steady_clock::now());
  if (report_) report_->RanksChanged();
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
  figures_ = {};
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

// "rank 2 (pid 4711) was lost at step 41; 3 ranks go on from step 41 with the weights of step 40, 6
// sequences a step, 2 on each rank".
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
  report_ = std::make_unique<Report>(config_, facts_.directory, facts_.reported, data_.unit());
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
