#include "trainer/progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

namespace weft::trainer {
namespace {

constexpr double kLineSeconds = 5;      // between plain lines
constexpr double kRedrawSeconds = 0.1;  // between redraws
constexpr size_t kBarCells = 20;
constexpr double kKeep = 0.95;  // of the running averages

std::string Bar(double done) {
  const size_t full = size_t(std::clamp(done, 0.0, 1.0) * double(kBarCells));
  std::string bar;
  for (size_t i = 0; i < kBarCells; i++)
    bar += i < full ? "█" : "░";
  return bar;
}

std::string Clock(double seconds) {
  const long s = long(seconds + 0.5);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string Count(double n) {
  if (n >= 1e6) return fmt::format("{:.2f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

}  // namespace

Progress::Progress(const TrainConfig& config, bool terminal)
    : config_(config), terminal_(terminal) {}

std::string Progress::Line(const StepRecord& record) const {
  const double share = seconds_ > 0 ? 100 * exposed_ / seconds_ : 0;
  const double left = seconds_ / double(record.step) * double(config_.steps - record.step);
  const std::string val = val_loss_ ? fmt::format("{:.3f}", *val_loss_) : "-";
  return fmt::format("step {}/{} | loss {:.3f} | val {} | {} tok/s | comm {:.1f} % | eta {}",
                     record.step, config_.steps, loss_, val, Count(tok_s_), share, Clock(left));
}

void Progress::Show(const StepRecord& record, std::optional<double> val_loss) {
  const double rate = double(config_.global_batch * config_.model.seq) / record.seconds;
  tok_s_ = record.step == 1 ? rate : kKeep * tok_s_ + (1 - kKeep) * rate;
  loss_ = record.step == 1 ? record.loss : kKeep * loss_ + (1 - kKeep) * record.loss;
  seconds_ += record.seconds;
  exposed_ += record.comm_exposed_s;
  if (val_loss) val_loss_ = val_loss;
  const bool last = record.step == config_.steps;
  const bool due = seconds_ - shown_at_ > (terminal_ ? kRedrawSeconds : kLineSeconds);
  if (!due && !last && record.step != 1 && !val_loss) return;
  shown_at_ = seconds_;
  if (terminal_) {
    const std::string bar = Bar(double(record.step) / double(config_.steps));
    fmt::print("\r\033[K{} {}", bar, Line(record));
  } else {
    fmt::print("{}\n", Line(record));
  }
  std::fflush(stdout);
}

void Progress::Finish() {
  if (terminal_) fmt::print("\n");
}

std::string DescribeCorpus(const Corpus& corpus) {
  std::string out;
  for (const CorpusSource& source : corpus.sources) {
    out += fmt::format("data   {}: {} files, {} bytes\n", source.path, source.file_count,
                       source.bytes);
  }
  out += fmt::format(
      "       removed {} bytes of repeated licence text and {} files that repeat another\n",
      corpus.licence_bytes, corpus.duplicate_files);
  if (corpus.split_inside) {
    out += fmt::format("       one file: first {} bytes train, last {} validate\n",
                       corpus.train.size(), corpus.validation.size());
  } else {
    out += fmt::format("       train on {} files, {} bytes; validate on {} other files, {} bytes\n",
                       corpus.train_files, corpus.train.size(), corpus.validation_files,
                       corpus.validation.size());
  }
  return out;
}

std::string DescribePlan(const ProgramConfig& config, const Trainer& trainer,
                         const Corpus& corpus) {
  const TrainConfig& t = config.train;
  const double tokens = double(t.steps * t.global_batch * t.model.seq);
  std::string out;
  out +=
      fmt::format("model  GPT, {} layers x {} wide, {} heads, {} bytes of context: {} parameters\n",
                  t.model.layers, t.model.width, t.model.heads, t.model.seq,
                  Count(double(trainer.parameter_count())));
  out += fmt::format(
      "plan   {} steps x {} sequences = {} tokens ({:.2f} epochs), {:.1f} TFLOP, {} products, lr "
      "{:g}, seed {}\n",
      t.steps, t.global_batch, Count(tokens), tokens / double(corpus.train.size()),
      tokens * FlopsPerToken(t.model) * 1e-12, t.precision == Precision::kBf16 ? "bf16" : "fp32",
      t.lr, t.seed);
  out += fmt::format(
      "       {} rank{} ({}), {} gradient bucket{}{}\n", trainer.parallel().size(),
      trainer.parallel().size() == 1 ? "" : "s", config.strategy, trainer.parallel().bucket_count(),
      trainer.parallel().bucket_count() == 1 ? "" : "s", t.no_overlap ? ", no overlap" : "");
  return out;
}

std::string Printable(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (c != '\n' && c != '\t' && (c < 32 || c > 126)) c = '?';
  }
  return out;
}

}  // namespace weft::trainer
