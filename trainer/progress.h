// What a run says: the plan, and progress. Report prints it, on rank 0.
//
// On a terminal progress is one line that is redrawn; elsewhere a line at each validation and at
// most every few seconds. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_PROGRESS_H_
#define WEFT_TRAINER_PROGRESS_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "trainer/config.h"
#include "trainer/corpus.h"
#include "trainer/train.h"
#include "trainer/work_line.h"

namespace weft::trainer {

class Progress {
 public:
  Progress(const TrainConfig& config, bool terminal);

  // What is to be printed after a step; "" if nothing is due.
  std::string Show(const StepRecord& record, std::optional<double> val_loss);

  // Stands in the lines from here on; empty: nothing.
  void SetSlowest(std::string text) { slowest_ = std::move(text); }

  // What leaves the redrawn line, before anything else is printed.
  std::string Finish() const { return terminal_ ? "\n" : ""; }

  // What takes a while before the first step, and which part of it is done. EndWork leaves its line.
  std::string ShowWork(const std::string& what, double share) { return work_.Show(what, share); }

  std::string EndWork() { return work_.End(); }

  double tok_s() const { return tok_s_; }

  // Of all steps that were shown: time, rate, and waiting for others.
  std::string DescribeSpeed() const;

 private:
  std::string Line(const StepRecord& record) const;

  const TrainConfig config_;
  const bool terminal_;
  double tok_s_ = 0;  // smoothed
  double loss_ =
      std::numeric_limits<double>::quiet_NaN();  // smoothed, of steps where it was finite
  double steps_ = 0;                             // shown so far
  double tokens_ = 0;                            // of these
  double seconds_ = 0;                           // all steps so far, validation not counted
  double exposed_ = 0;
  double shown_at_ = 0;  // seconds_ when a line was last printed
  WorkLine work_;
  std::optional<double> val_loss_;
  std::string slowest_;
};

// The lines before step 1.
std::string DescribeCorpus(const Corpus& corpus);
// Elements and memory of the ranks, most and least; empty if there is one rank.
std::string DescribeBalance(const RankReports& report);
// "rank 1 23 % slower" than the median, or nothing if it is no more than a tenth.
std::string DescribeSlowest(const weft_shard_report_t& summary);
// UTF-8 as it is; but for what is none, and for characters that control a terminal or turn text around, '?' for each byte.
std::string Printable(const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PROGRESS_H_
