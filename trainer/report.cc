#include "trainer/report.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <fmt/core.h>
#include <unistd.h>

#include "trainer/failure.h"
#include "trainer/train.h"

namespace weft::trainer {

void FlushOutput() {
  if (std::fflush(stdout) == 0) return;
  throw RunFailure(fmt::format("writing the output: {}", std::strerror(errno)));
}

Report::Report(const TrainConfig& config, const std::string& directory, size_t go_on_after)
    : metrics_(directory, go_on_after), progress_(config, isatty(STDOUT_FILENO) == 1) {}

void Report::Add(const StepRecord& record, std::optional<double> val_loss) {
  progress_.Show(record, val_loss);
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start_;
  metrics_.Write(record, time.count(), progress_.tok_s(), val_loss);
}

void Report::Say(const std::string& line) {
  progress_.Finish();
  fmt::print("{}\n", line);
  FlushOutput();
}

void Report::PrintEnd(const TrainConfig& t, const Curve& curve, double final_loss,
                      const std::string& sample, size_t ranks) {
  progress_.Finish();
  const Progress& p = progress_;
  const double order3 = curve.order3;
  if (curve.train.empty()) throw RunFailure("the loss was not finite in any step");
  const double bits = final_loss / std::log(2.0);
  fmt::print(
      "\nloss   first {:.4f}, last {:.4f} nats per byte; {:.1f} s of steps, {:.0f} tok/s, "
      "{:.1f} % waiting for communication\n",
      curve.train.front().loss, curve.train.back().loss, p.train_seconds(),
      p.tokens() / p.train_seconds(), 100 * p.exposed_seconds() / p.train_seconds());
  fmt::print("valid  {:.4f} nats per byte = {:.3f} bits per byte\n", final_loss, bits);
  fmt::print("order3 {:.4f} nats per byte on the same bytes: the model is {:.4f} {}\n", order3,
             std::abs(order3 - final_loss), final_loss < order3 ? "better" : "worse");
  fmt::print("\n{}\n", CurveText(curve, 80, 10));
  fmt::print(
      "sample (the first {} bytes are validation text; temperature {}, top {}, seed {}):\n{}\n",
      ContextBytes(t.model.seq), kTemperature, kTop, t.seed, Printable(sample));
  const std::string subtitle =
      fmt::format("{} rank{}, {} steps; validation {:.3f} nats per byte ({:.3f} bits)", ranks,
                  ranks == 1 ? "" : "s", t.steps, final_loss, bits);
  const std::string& directory = metrics_.directory();
  WriteRunFile(directory, "loss.svg", CurveSvg(curve, "weft_train", subtitle));
  WriteRunFile(directory, "sample.txt", sample);
  fmt::print("\nwrote  {0}/metrics.jsonl, {0}/loss.svg, {0}/sample.txt\n", directory);
}

}  // namespace weft::trainer
