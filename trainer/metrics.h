// metrics.jsonl of a run: one JSON object per step, written as the run goes.
#ifndef WEFT_TRAINER_METRICS_H_
#define WEFT_TRAINER_METRICS_H_

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "trainer/train.h"

namespace weft::trainer {

class MetricsWriter {
 public:
  // Makes the directory and an empty metrics.jsonl in it. Throws BadInput when that fails.
  explicit MetricsWriter(const std::string& directory);

  // `time_ns` counts from the start of training. val_loss is there after a validation.
  void Write(const StepRecord& record, int64_t time_ns, double tok_s,
             std::optional<double> val_loss);

  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  std::ofstream out_;
};

// Writes a whole file into the run's directory; throws RunFailure when that fails.
void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_METRICS_H_
