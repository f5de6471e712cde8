// weft_train: the reference trainer. See docs/trainer.md. Options are read before there is a group, but a rank with bad options
// joins it all the same: only so can rank 0 alone say what is wrong, and do the others end instead of waiting.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/core.h>
#include <unistd.h>

#include "weft/group.h"

#include "trainer/corpus.h"
#include "trainer/curve.h"
#include "trainer/failure.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/order3.h"
#include "trainer/progress.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTemperature = 0.8;
constexpr size_t kTop = 40;  // likeliest bytes that are drawn from

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string RunName() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

std::string ProgramDirectory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

// Mean loss of the order-3 model on the bytes that the trained model is judged by.
double Order3Loss(const Corpus& corpus, const std::vector<size_t>& offsets, size_t seq) {
  const Order3Model model(corpus.train);
  double witten_bell = 0, kneser_ney = 0;
  for (const size_t offset : offsets) {
    for (size_t i = offset + ContextBytes(seq) + 1; i <= offset + seq; i++) {
      witten_bell += model.Loss(corpus.validation, i, Smoothing::kWittenBell);
      kneser_ney += model.Loss(corpus.validation, i, Smoothing::kKneserNey);
    }
  }
  return std::min(witten_bell, kneser_ney) / double(offsets.size() * (seq - ContextBytes(seq)));
}

// What the sample continues: the first context in the middle of the validation text that is mostly
// not white space. From a lone newline a model of source code likes to indent for ever.
std::string Prompt(const Corpus& corpus, const std::vector<size_t>& offsets, size_t seq) {
  std::string prompt;
  for (size_t i = offsets.size() / 2; i < offsets.size(); i++) {
    prompt = corpus.validation.substr(offsets[i], ContextBytes(seq));
    const auto blank = std::count_if(prompt.begin(), prompt.end(),
                                     [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
    if (size_t(blank) * 4 <= prompt.size()) break;
  }
  return prompt;
}

// Whoever redirects the output wants to know that it is not all there.
void FlushOutput() {
  if (std::fflush(stdout) == 0) return;
  throw RunFailure(fmt::format("writing the output: {}", std::strerror(errno)));
}

// What rank 0 shows and writes; the other ranks have none.
struct Report {
  MetricsWriter metrics;
  Progress progress;
  Curve curve;
  Clock::time_point start = Clock::now();

  Report(const ProgramConfig& config, const std::string& directory)
      : metrics(directory), progress(config.train, isatty(STDOUT_FILENO) == 1) {}

  void Add(const StepRecord& record, std::optional<double> val_loss) {
    if (std::isfinite(record.loss)) curve.train.push_back({double(record.step), record.loss});
    if (val_loss) curve.validation.push_back({double(record.step), *val_loss});
    progress.Show(record, val_loss);
    metrics.Write(record, int64_t(SecondsSince(start) * 1e9), progress.tok_s(), val_loss);
  }
};

void PrintEnd(const ProgramConfig& config, Report& report, double final_loss,
              const std::string& sample, size_t ranks) {
  const TrainConfig& t = config.train;
  const Progress& p = report.progress;
  const double tokens = double(t.steps * t.global_batch * t.model.seq);
  const double order3 = report.curve.order3;
  if (report.curve.train.empty()) throw RunFailure("the loss was not finite in any step");
  const double bits = final_loss / std::log(2.0);
  fmt::print(
      "\nloss   first {:.4f}, last {:.4f} nats per byte; {:.1f} s of steps, {:.0f} tok/s, "
      "{:.1f} % waiting for communication\n",
      report.curve.train.front().loss, report.curve.train.back().loss, p.train_seconds(),
      tokens / p.train_seconds(), 100 * p.exposed_seconds() / p.train_seconds());
  fmt::print("valid  {:.4f} nats per byte = {:.3f} bits per byte\n", final_loss, bits);
  fmt::print("order3 {:.4f} nats per byte on the same bytes: the model is {:.4f} {}\n", order3,
             std::abs(order3 - final_loss), final_loss < order3 ? "better" : "worse");
  fmt::print("\n{}\n", CurveText(report.curve, 80, 10));
  fmt::print(
      "sample (the first {} bytes are validation text; temperature {}, top {}, seed {}):\n{}\n",
      ContextBytes(t.model.seq), kTemperature, kTop, t.seed, Printable(sample));
  const std::string subtitle =
      fmt::format("{} rank{}, {} steps; validation {:.3f} nats per byte ({:.3f} bits)", ranks,
                  ranks == 1 ? "" : "s", t.steps, final_loss, bits);
  const std::string& directory = report.metrics.directory();
  WriteRunFile(directory, "loss.svg", CurveSvg(report.curve, "weft_train", subtitle));
  WriteRunFile(directory, "sample.txt", sample);
  fmt::print("\nwrote  {0}/metrics.jsonl, {0}/loss.svg, {0}/sample.txt\n", directory);
}

void Run(const ProgramConfig& config, weft_group_t group, bool first_rank) {
  const auto start = Clock::now();
  const TrainConfig& t = config.train;
  const Corpus corpus = LoadCorpus(config.data, ProgramDirectory());
  Trainer trainer(t, corpus, group);
  const size_t seq = t.model.seq;
  const auto some = SpreadWindows(corpus.validation.size(), seq, t.eval_windows);
  const auto many = SpreadWindows(corpus.validation.size(), seq, t.final_windows);

  const RankReports kept = trainer.parallel().Report();
  std::unique_ptr<Report> report;
  if (first_rank) {
    const std::string name = config.name.empty() ? RunName() : config.name;
    report = std::make_unique<Report>(config, config.run_dir + "/" + name);
    fmt::print("{}{}{}", DescribeCorpus(corpus), DescribePlan(t, trainer, corpus),
               DescribeBalance(kept));
    FlushOutput();
    report->curve.order3 = Order3Loss(corpus, many, seq);
    fmt::print("       an order-3 byte model has {:.4f} nats per byte on {} validation bytes\n\n",
               report->curve.order3, many.size() * (seq - ContextBytes(seq)));
    FlushOutput();
    report->start = Clock::now();
  }
  trainer.Begin();
  for (size_t step = 0; step < t.steps; step++) {
    const StepRecord record = trainer.Step(step);
    const bool last = step + 1 == t.steps;
    std::optional<double> val_loss;
    if (!last && t.eval_every > 0 && (step + 1) % t.eval_every == 0) {
      val_loss = trainer.Evaluate(some);
    }
    if (last) val_loss = trainer.Evaluate(many);
    if (val_loss) {
      const RankReports since = trainer.parallel().Report();
      if (report) report->progress.SetSlowest(DescribeSlowest(since.summary));
    }
    if (report) report->Add(record, val_loss);
  }
  const std::string sample =
      trainer.Generate(Prompt(corpus, many, seq), t.sample_bytes, kTemperature, kTop);
  if (!report) return;
  report->progress.Finish();
  PrintEnd(config, *report, report->curve.validation.back().loss, sample,
           trainer.parallel().size());
  fmt::print("       {:.1f} s in all\n", SecondsSince(start));
  FlushOutput();
}

// Runs with a group made from the launcher's environment; returns the exit code.
int RunInGroup(const ProgramConfig& config, const std::string& bad_options) {
  weft_group_t group = nullptr;
  if (bad_options.empty()) {
    Check(weft_group_create_from_env(nullptr, &group), "joining the other ranks");
  } else if (weft_group_create_from_env(nullptr, &group) != WEFT_SUCCESS) {
    group = nullptr;
  }
  int rank = 0;
  if (group != nullptr) weft_group_rank(group, &rank);
  int code = 0;
  try {
    if (!bad_options.empty()) throw BadInput(bad_options);
    Run(config, group, rank == 0);
  } catch (const BadInput& error) {
    // Every rank finds the same fault; one line is enough.
    if (rank == 0) fmt::print(stderr, "weft_train: {}\n", error.what());
    weft_group_abort(group, error.what());
    code = 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft_train: rank {}: {}\n", rank, error.what());
    weft_group_abort(group, error.what());
    code = 1;
  }
  weft_group_destroy(group);
  return code;
}

int Main(int argc, char** argv) {
  ProgramConfig config;
  std::string help, bad_options;
  try {
    if (!ParseOptions(argc, argv, config, help)) {
      fmt::print("{}", help);
      return 0;
    }
  } catch (const BadInput& error) {
    bad_options = error.what();
  }
  try {
    return RunInGroup(config, bad_options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft_train: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  return weft::trainer::Main(argc, argv);
}
