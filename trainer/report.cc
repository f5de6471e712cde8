#include "trainer/report.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "trainer/failure.h"
#include "trainer/run_files.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

// What TensorBoard shows of a step.
std::vector<Scalar> ScalarsOf(const StepRecord& record, double tok_s,
                              std::optional<double> val_loss) {
  std::vector<Scalar> scalars = {{"loss/train", record.loss},
                                 {"loss/largest of a rank", record.loss_max},
                                 {"optimizer/learning rate", record.lr},
                                 {"optimizer/gradient norm", record.grad_norm},
                                 {"speed/tokens per second", tok_s},
                                 {"speed/seconds of a step", record.seconds}};
  if (val_loss) scalars.push_back({"loss/validation", *val_loss});
  if (record.loss_scale != 1) scalars.push_back({"optimizer/loss scale", record.loss_scale});
  if (!record.MadeHere()) return scalars;
  for (size_t i = 0; i < kPhases; i++)
    scalars.push_back({std::string("phases/") + kPhaseNames[i], record.phases[Phase(i)]});
  return scalars;
}

}  // namespace

Report::Report(const ProgramConfig& config, const std::string& directory, size_t go_on_after,
               const char* unit)
    : directory_(directory),
      unit_(unit),
      metrics_(directory, go_on_after),
      progress_(config.train, isatty(STDOUT_FILENO) == 1) {
  for (const KeptLine& line : metrics_.kept())
    done_.rates.push_back({double(line.step), line.tok_s});
  if (config.tensorboard) events_.emplace(directory, go_on_after);
  if (!config.metrics_command.empty()) command_.emplace(config.metrics_command, directory);
}

void Report::Print(const std::string& text) {
  if (output_failed_ || text.empty()) return;
  const bool printed =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (printed) return;
  output_failed_ = true;
  unwritten_.push_back(fmt::format("writing the output: {}", std::strerror(errno)));
  Complain(unwritten_.back());
}

void Report::Add(const StepRecord& record, std::optional<double> val_loss,
                 const std::vector<RankFigures>& ranks) {
  Print(progress_.Show(record, val_loss));
  done_.Add(record, progress_.tok_s(), ranks);
  Tell(record, std::chrono::steady_clock::now() - start_, progress_.tok_s(), val_loss, ranks);
}

void Report::Tell(const StepRecord& record, std::chrono::nanoseconds time, double tok_s,
                  std::optional<double> val_loss, const std::vector<RankFigures>& ranks) {
  const std::string line = MetricsLine(record, time.count(), tok_s, val_loss, ranks);
  // First: where a rank dies between the two, the next one makes the line again.
  if (command_) command_->Append(line);
  metrics_.Append(line);
  if (events_) events_->Add(record.step, ScalarsOf(record, tok_s, val_loss));
  NoteUnwritten();
}

void Report::NoteUnwritten() {
  std::string unwritten = metrics_.Unwritten();
  if (unwritten.empty() && events_) unwritten = events_->Unwritten();
  if (!files_noted_ && !unwritten.empty()) {
    files_noted_ = true;
    Complain(unwritten + "; training goes on, and what is missing waits for room");
  }
  unwritten = command_ ? command_->Unwritten() : "";
  if (command_noted_ || unwritten.empty()) return;
  command_noted_ = true;
  Complain(unwritten + "; training goes on");
}

std::string Report::FillUpTo(const StepRecord& last) {
  if (metrics_.kept().empty() || metrics_.last_step() >= last.step) return "";
  const size_t first_missing = metrics_.last_step() + 1;
  const auto seconds = std::chrono::duration<double>(last.seconds);
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
  Tell(last, std::chrono::nanoseconds(metrics_.kept().back().time_ns) + time,
       last.seconds > 0 ? double(last.tokens) / last.seconds : 0, std::nullopt, {});
  if (first_missing == last.step) return "";
  return fmt::format("metrics.jsonl lacks steps {} to {}, which were not written before\n",
                     first_missing, last.step - 1);
}

void Report::Say(const std::string& line) {
  Print(progress_.Finish() + line + "\n");
}

void Report::WriteTrace(const std::string& text) {
  if (WriteFile("trace.json", text)) Say(fmt::format("wrote  {}/trace.json", directory_));
}

void Report::CheckWritten() const {
  if (!unwritten_.empty()) throw NotWritten(unwritten_.front());
}

bool Report::WriteFile(const std::string& name, const std::string& text) {
  try {
    WriteRunFile(directory_, name, text);
    return true;
  } catch (const std::runtime_error& error) {
    unwritten_.emplace_back(error.what());
    return false;
  }
}

bool Report::Finish() {
  metrics_.Finish();
  if (!metrics_.Unwritten().empty()) unwritten_.push_back(metrics_.Unwritten());
  if (events_) {
    events_->Finish();
    if (!events_->Unwritten().empty()) unwritten_.push_back(events_->Unwritten());
  }
  if (command_) {
    command_->Finish();
    if (!command_->Unwritten().empty()) unwritten_.push_back(command_->Unwritten());
  }
  for (const std::string& sentence : unwritten_)
    Complain(sentence);
  return unwritten_.empty();
}

void Report::PrintEnd(const TrainConfig& t, const Curve& curve, double final_loss,
                      const std::string& sample, size_t ranks, const std::vector<RunFile>& more) {
  const Progress& p = progress_;
  const double order3 = curve.order3;
  if (curve.train.empty()) throw RunFailure("the loss was not finite in any step");
  const double bits = final_loss / std::log(2.0);
  std::string text = progress_.Finish();
  text += fmt::format("\nloss   first {:.4f}, last {:.4f} nats per {}; {}\n",
                      curve.train.front().loss, curve.train.back().loss, unit_, p.DescribeSpeed());
  text += fmt::format("valid  {:.4f} nats per {} = {:.3f} bits per {}\n", final_loss, unit_, bits,
                      unit_);
  if (order3 > 0)
    text += fmt::format("order3 {:.4f} nats per byte on the same bytes: the model is {:.4f} {}\n",
                        order3, std::abs(order3 - final_loss),
                        final_loss < order3 ? "better" : "worse");
  text += fmt::format("\n{}\n", CurveText(curve, 80, 10));
  text += fmt::format(
      "sample (the first {} {}s are validation text; temperature {}, top {}, seed {}):\n{}\n",
      ContextTokens(t.model.seq), unit_, kTemperature, kTop, t.seed, Printable(sample));
  const std::string subtitle =
      fmt::format("{} rank{}, {} steps; validation {:.3f} nats per {} ({:.3f} bits)", ranks,
                  ranks == 1 ? "" : "s", curve.train.back().step, final_loss, unit_, bits);
  text += fmt::format("\nwrote  {}/metrics.jsonl", directory_);
  std::vector<RunFile> files = {{"loss.svg", CurveSvg(curve, "weft_train", subtitle, unit_)},
                                {"sample.txt", sample}};
  files.insert(files.end(), more.begin(), more.end());
  for (const auto& [name, contents] : files) {
    if (WriteFile(name, contents)) text += fmt::format(", {}/{}", directory_, name);
  }
  Print(text + "\n");
}

}  // namespace weft::trainer
