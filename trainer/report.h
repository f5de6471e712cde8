// What rank 0 shows and writes while a run goes on, and at its end; the other ranks have none.
//
//   Report report(config, directory, 0, data.unit());
//   report.Print(data.Describe());
//   report.Add(record, val_loss);              // after every step
//   report.PrintEnd(config.train, curve, final_loss, sample, ranks, {{"report.md", text}});
//   if (!report.Finish()) ...                  // something of it is not there
//
// Output that cannot be written, as on a full disk, does not end training, and neither does a
// command that does not take its lines: it is said once, and Finish knows it.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_REPORT_H_
#define WEFT_TRAINER_REPORT_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/curve.h"
#include "trainer/event_file.h"
#include "trainer/metrics.h"
#include "trainer/metrics_command.h"
#include "trainer/progress.h"
#include "trainer/reports/run_record.h"

namespace weft::trainer {

constexpr double kTemperature = 0.8;  // of the sample
constexpr size_t kTop = 40;           // likeliest bytes that it is drawn from

struct RunFile {
  std::string name, text;
};

class Report {
 public:
  // Writes into `directory`. With go_on_after > 0 it goes on after that step from what another rank
  // wrote there. `unit`: what losses are per, "byte" or "token".
  Report(const ProgramConfig& config, const std::string& directory, size_t go_on_after,
         const char* unit);

  // When training began; other ranks may have begun it.
  void SetStart(std::chrono::steady_clock::time_point start) { start_ = start; }

  // The last step that was in the directory's metrics at first; 0: none.
  size_t last_step() const { return metrics_.last_step(); }

  // The steps that were there at first.
  const std::vector<KeptLine>& kept() const { return metrics_.kept(); }

  // `ranks`: if their figures were exchanged after this step.
  void Add(const StepRecord& record, std::optional<double> val_loss,
           const std::vector<RankFigures>& ranks = {});

  // The steps from here on are of other ranks, maybe as many.
  void RanksChanged() { done_.RanksChanged(); }

  // Since the program was started.
  const RunRecord& done() const { return done_; }

  void SetSlowest(std::string text) { progress_.SetSlowest(std::move(text)); }

  // To standard output.
  void Print(const std::string& text);

  // What takes a while before training: redrawn on a terminal, elsewhere a line now and then.
  void ShowWork(const std::string& what, double share) { Print(progress_.ShowWork(what, share)); }

  void EndWork() { Print(progress_.EndWork()); }

  // After a step that metrics.jsonl has no line of, because whoever wrote it died on the way:
  // writes that line. Returns what else is missing, as a line, or "".
  std::string FillUpTo(const StepRecord& last);
  // Writes trace.json, and says so.
  void WriteTrace(const std::string& text);
  // One line in between, not into the line that is redrawn.
  void Say(const std::string& line);
  // Writes `more` beside the files that a run always leaves.
  void PrintEnd(const TrainConfig& config, const Curve& curve, double final_loss,
                const std::string& sample, size_t ranks, const std::vector<RunFile>& more);

  // Throws NotWritten if something could not be written so far.
  void CheckWritten() const;
  // The last call: whether everything is written, and read by the command, which it waits for
  // (metrics_command.h). If not, says on standard error what is not.
  bool Finish();

 private:
  // All that takes note of each step; `time` is since training began.
  void Tell(const StepRecord& record, std::chrono::nanoseconds time, double tok_s,
            std::optional<double> val_loss, const std::vector<RankFigures>& ranks);
  // What is to be told for the first time.
  void NoteUnwritten();
  // Writes a file of the end; false if it could not.
  bool WriteFile(const std::string& name, const std::string& text);

  const std::string directory_;
  const char* const unit_;
  MetricsWriter metrics_;
  std::optional<EventFile> events_;        // with --tensorboard
  std::optional<MetricsCommand> command_;  // with --metrics-command
  Progress progress_;
  RunRecord done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::string> unwritten_;  // sentences, without what files that grow lack
  bool output_failed_ = false;
  bool files_noted_ = false;    // that what grows with the steps lacks something
  bool command_noted_ = false;  // the same of the command
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORT_H_
