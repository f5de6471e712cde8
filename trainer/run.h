// One run of the program on this rank: data, training, the report; and with --elastic, going on
// when ranks are lost or join.
//
//   Run run(config, group);
//   const int code = run.ToTheEnd();
//
// With --checkpoint-every it saves, and goes on from what was saved; with --init a new run begins
// with the values of another one. If a rank is asked to end (stop_signals.h), all stop after the
// same step and save.
//
// When a rank is lost the others make the group anew, agree on the state of the rank that is
// furthest, and go on with a trainer on the new group. Between steps they take in who waits to
// join, in the same way. The batch of a step stays as large as it was, and is dealt anew among the
// ranks there are.
//
// Every function is collective over the ranks of the group. Throws BadInput or RunFailure.
// Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_RUN_H_
#define WEFT_TRAINER_RUN_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/checkpoints.h"
#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/gemm_rate.h"
#include "trainer/members.h"
#include "trainer/origin.h"
#include "trainer/plan.h"
#include "trainer/rank_figures.h"
#include "trainer/report.h"
#include "trainer/run_data.h"
#include "trainer/run_facts.h"
#include "trainer/run_folder.h"
#include "trainer/train.h"
#include "trainer/train_state.h"
#include "trainer/validation_text.h"

namespace weft::trainer {

class Run {
 public:
  // The group is borrowed. If it has been made more than once, this rank has joined a run.
  Run(const ProgramConfig& config, weft_group_t group);

  // 0, or what the program is to exit with: because it was asked to end, or because not all of the
  // run could be written.
  int ToTheEnd();

 private:
  void Begin();
  // On rank 0: the text and the plan, before memory is taken for it.
  void PrintPlan(const RunPlan& plan) const;
  // How fast matrix products are here, for the report, if that is soon known.
  void MeasureRate(const RunPlan& plan);
  std::unique_ptr<Trainer> MakeTrainer(const RunPlan& plan) const;
  std::string OwnCheckpoints() const;
  ResolvedConfig Resolved() const;
  Origin MakeOrigin() const;
  // On rank 0: what it says of the run before the first step.
  void Introduce(const RankReports& kept, const Resumed* resumed, const InitialValues* values);
  void SayResumed(const Resumed& resumed);
  // On rank 0, if --order3 wants it.
  void CountOrder3();
  void TakeCurveFromMetrics();
  void Train();
  // The validation that is due after that step, if any.
  std::optional<double> Validate(size_t step);
  // Once the steps of --trace are done. Collective.
  void WriteTraceIfDue(size_t step);
  // What it takes is added to the record's phases.
  void SaveIfDue(StepRecord& record);
  void Save(Checkpoints& checkpoints, StepRecord& record);
  void SaveIfBest(StepRecord& record, double val_loss);
  void SayStopped(bool saved) const;
  // Validates where that is due, and reports.
  void EndStep(StepRecord record);
  void End();
  // On rank 0, unless --report is off.
  std::vector<RunFile> ReportFiles() const;
  // Waits for what is still written; the exit code.
  int Close();
  // False if nobody waits.
  bool TakeInNewcomers();
  void KeepState();
  // With the ranks that the group has now. `change`: who has gone or come.
  void GoOn(const std::string& change);
  void SayWhoGoesOn(const std::string& change);
  void BecomeFirst();
  void TakeVocabulary();
  // On dtype and batch, where these are not given, and that all ranks train the same.
  void Agree();
  // That those who have joined train what the others do. Throws NotOfThisRun on those that do not.
  void AgreeWithNewcomers();
  // Where this run is written, from its first moment.
  void ClaimFolder();
  int GoToTheEnd();

  ProgramConfig config_;  // of the run, once the ranks have agreed
  Members members_;
  const std::chrono::steady_clock::time_point start_;
  const std::chrono::system_clock::time_point clock_start_;
  RunData data_;
  const std::string identity_;  // of the data
  const ValidationText validation_;
  RunFacts facts_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Checkpoints> checkpoints_;  // of trainer_'s model
  std::unique_ptr<Checkpoints> best_;         // with --keep-best
  uint64_t requests_ = 0;                     // of all ranks, as of the last step or look
  // Of the last step that this rank made.
  std::optional<weft_shard_step_result_t> traffic_;
  std::optional<GemmRate> gemm_;
  bool validated_ = false;           // the last step
  bool end_printed_ = false;         // by this rank
  StepRecord last_;                  // of this process; step 0: none
  RankFigures figures_;              // of this rank, since they were last exchanged
  TrainState state_;                 // of an elastic run: as of the last change of the group
  std::optional<RunFolder> folder_;  // of the rank 0 that has claimed it
  bool resume_own_ = false;          // this job has saved already
  std::unique_ptr<Report> report_;   // of rank 0
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_H_
