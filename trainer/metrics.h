// metrics.jsonl of a run: one JSON object per step, written as the run goes.
//
//   MetricsWriter metrics("runs/a");
//   metrics.Append(MetricsLine(record, time_ns, tok_s, val_loss));  // of each step; never throws
//   metrics.Finish();
//   if (!metrics.Unwritten().empty()) ...                // on a full disk: what is missing, and why
//
// On a full disk lines wait (appended_file.h). Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_METRICS_H_
#define WEFT_TRAINER_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/appended_file.h"
#include "trainer/rank_figures.h"
#include "trainer/train_state.h"

namespace weft::trainer {

// What an earlier line of the file says, as far as the pictures need it.
struct KeptLine {
  size_t step = 0;
  int64_t time_ns = 0;
  std::optional<double> loss, val_loss;  // of finite ones
  double tok_s = 0;
};

// The line of a step, with its end. `time_ns` counts from the start of training. val_loss is there
// after a validation, `ranks` after an exchange of figures.
std::string MetricsLine(const StepRecord& record, int64_t time_ns, double tok_s,
                        std::optional<double> val_loss, const std::vector<RankFigures>& ranks = {});

class MetricsWriter {
 public:
  // Makes the directory and an empty metrics.jsonl in it. Throws BadInput if it may not, and
  // NotWritten if there is no room. With `go_on_after` > 0 the file keeps the lines up to that
  // step, and new ones follow: another rank, or an earlier run, wrote them, and may have died in
  // the middle of one.
  explicit MetricsWriter(const std::string& directory, size_t go_on_after = 0);

  // One that MetricsLine has made.
  void Append(const std::string& line) { file_.Append(line); }

  // Writes what waits, to the disk. The last call.
  void Finish() { file_.Finish(); }

  // How many lines are not in the file and why, in words; "": all are.
  std::string Unwritten() const { return file_.Unwritten("lines"); }

  // Of the lines that it went on after; 0: there were none.
  size_t last_step() const { return kept_.empty() ? 0 : kept_.back().step; }

  // The lines that it went on after, in order.
  const std::vector<KeptLine>& kept() const { return kept_; }

 private:
  std::vector<KeptLine> kept_;
  AppendedFile file_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_METRICS_H_
