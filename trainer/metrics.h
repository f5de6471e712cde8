// metrics.jsonl of a run: one JSON object per step, written as the run goes.
#ifndef WEFT_TRAINER_METRICS_H_
#define WEFT_TRAINER_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "trainer/train.h"

namespace weft::trainer {

// What an earlier line of the file says, as far as the pictures need it.
struct KeptLine {
  size_t step = 0;
  int64_t time_ns = 0;
  std::optional<double> loss, val_loss;  // of finite ones
};

class MetricsWriter {
 public:
  // Makes the directory and an empty metrics.jsonl in it. Throws BadInput when that fails. With `go_on_after` > 0 the file
  // keeps the lines up to that step, and new ones follow: another rank, or an earlier run, wrote them, and may have died in the middle of one.
  explicit MetricsWriter(const std::string& directory, size_t go_on_after = 0);

  // `time_ns` counts from the start of training. val_loss is there after a validation.
  void Write(const StepRecord& record, int64_t time_ns, double tok_s,
             std::optional<double> val_loss);

  // Of the lines that it went on after; 0: there were none.
  size_t last_step() const { return kept_.empty() ? 0 : kept_.back().step; }

  // The lines that it went on after, in order.
  const std::vector<KeptLine>& kept() const { return kept_; }

  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  std::ofstream out_;
  std::vector<KeptLine> kept_;
};

// Writes a whole file into the run's directory; throws RunFailure when that fails.
void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_METRICS_H_
