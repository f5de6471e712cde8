// What is shown is for the eye: loss and rate are running averages, so that one step does not make them jump; metrics.jsonl has
// every step. A loss that is not finite stays out of the average, where it would remain for ever.
#include "trainer/progress.h"

#include <algorithm>
#include <cmath>

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

std::string Bytes(uint64_t bytes) {
  if (bytes >= 1000000) return fmt::format("{:.2f} MB", double(bytes) * 1e-6);
  if (bytes >= 1000) return fmt::format("{:.1f} kB", double(bytes) * 1e-3);
  return fmt::format("{} bytes", bytes);
}

std::string Count(double n) {
  if (n >= 1e6) return fmt::format("{:.2f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

// "60 files and nine tenths of 5 large ones".
std::string Side(size_t whole, const char* which, size_t cut, const char* part) {
  const std::string files = fmt::format("{} {}file{}", whole, which, whole == 1 ? "" : "s");
  const char* const ending = cut == 1 ? "" : "s";
  if (cut == 0) return files;
  if (whole == 0) return fmt::format("{} {} large file{}", part, cut, ending);
  return fmt::format("{} and {} {} large one{}", files, part, cut, ending);
}

}  // namespace

Progress::Progress(const TrainConfig& config, bool terminal)
    : config_(config), terminal_(terminal) {}

std::string Progress::Line(const StepRecord& record) const {
  const double share = seconds_ > 0 ? 100 * exposed_ / seconds_ : 0;
  const double left = seconds_ / steps_ * double(config_.steps - record.step);
  const std::string val = val_loss_ ? fmt::format("{:.3f}", *val_loss_) : "-";
  return fmt::format("step {}/{} | loss {:.3f} | val {} | {} tok/s | comm {:.1f} % | eta {}{}{}",
                     record.step, config_.steps, loss_, val, Count(tok_s_), share, Clock(left),
                     slowest_.empty() ? "" : " | ", slowest_);
}

std::string Progress::Show(const StepRecord& record, std::optional<double> val_loss) {
  const double rate = double(record.tokens) / record.seconds;
  tok_s_ = steps_ == 0 ? rate : kKeep * tok_s_ + (1 - kKeep) * rate;
  if (std::isfinite(record.loss)) {
    loss_ = std::isfinite(loss_) ? kKeep * loss_ + (1 - kKeep) * record.loss : record.loss;
  }
  steps_ += 1;
  tokens_ += double(record.tokens);
  seconds_ += record.seconds;
  exposed_ += record.comm_exposed_s;
  if (val_loss) val_loss_ = val_loss;
  const bool last = record.step == config_.steps;
  const bool due = seconds_ - shown_at_ > (terminal_ ? kRedrawSeconds : kLineSeconds);
  if (!due && !last && record.step != 1 && !val_loss) return "";
  shown_at_ = seconds_;
  if (!terminal_) return Line(record) + "\n";
  const std::string bar = Bar(double(record.step) / double(config_.steps));
  return fmt::format("\r\033[K{} {}", bar, Line(record));
}

std::string DescribeCorpus(const Corpus& corpus) {
  std::string out;
  for (const CorpusSource& source : corpus.sources) {
    out += fmt::format("data   {}: {} files, {} bytes\n", source.path, source.file_count,
                       source.bytes);
    for (const std::string& phrase : DescribePassedOver(source.passed_over))
      out += fmt::format("       passed over {}\n", phrase);
  }
  out += fmt::format(
      "       removed {} bytes of repeated licence text, {} files that repeat another, {} blank "
      "files\n",
      corpus.licence_bytes, corpus.duplicate_files, corpus.blank_files);
  const size_t validation = corpus.validation.size();
  out += fmt::format(
      "       train on {}, {} bytes; validate on {}, {} bytes, {:.1f} %\n",
      Side(corpus.train_files, "", corpus.cut_files, "nine tenths of"), corpus.train.size(),
      Side(corpus.validation_files, "other ", corpus.cut_files, "the rest of"), validation,
      100 * double(validation) / double(validation + corpus.train.size()));
  return out;
}

namespace {

// What finalize decided: bytes of a rank and of a step.
std::string DescribeSharding(const TrainConfig& config, const DataParallel& parallel) {
  const weft_shard_plan_t& plan = parallel.plan();
  const uint64_t rest = plan.param_bytes + plan.grad_bytes + plan.optimizer_bytes;
  std::string out = fmt::format(
      "       {} rank{} ({}), {} gradient bucket{}{}\n", parallel.size(),
      parallel.size() == 1 ? "" : "s", weft_shard_preset_name(config.strategy), plan.bucket_count,
      plan.bucket_count == 1 ? "" : "s", config.no_overlap ? ", no overlap" : "");
  out += fmt::format(
      "memory {} of parameters, {} of gradients, {} of optimizer state, {} of pool: {} per rank, "
      "{} "
      "of it padding\n",
      Bytes(plan.param_bytes), Bytes(plan.grad_bytes), Bytes(plan.optimizer_bytes),
      Bytes(plan.pool_bytes), Bytes(rest + plan.pool_bytes), Bytes(plan.padding_bytes));
  if (plan.pool_bytes > plan.moving_pool_bytes) {
    out += fmt::format("       {} of the pool for views that do not move\n",
                       Bytes(plan.pool_bytes - plan.moving_pool_bytes));
  }
  if (plan.offload_bytes > 0) {
    out += fmt::format(
        "       {} of {} in {}, per step {} read, {} written\n", Bytes(plan.offload_bytes),
        plan.param_bytes == 0 ? "weights and optimizer state" : "optimizer state", config.offload,
        Bytes(plan.offload_read_bytes), Bytes(plan.offload_written_bytes));
  }
  out += fmt::format("       per step {} reduced, {} gathered, {} unit{} ahead\n",
                     Bytes(plan.traffic_bytes), Bytes(plan.gather_bytes), plan.prefetch,
                     plan.prefetch == 1 ? "" : "s");
  return out;
}

}  // namespace

std::string DescribePlan(const TrainConfig& t, const Trainer& trainer, const Corpus& corpus) {
  const double tokens = double(t.steps * t.global_batch * t.model.seq);
  std::string out;
  out +=
      fmt::format("model  GPT, {} layers x {} wide, {} heads, {} bytes of context: {} parameters\n",
                  t.model.layers, t.model.width, t.model.heads, t.model.seq,
                  Count(double(trainer.parameter_count())));
  out += fmt::format(
      "plan   {} steps x {} sequences ({}) = {} tokens ({:.2f} epochs), {:.1f} TFLOP, {} products, "
      "lr "
      "{:g}, seed {}\n",
      t.steps, t.global_batch, DescribeShares(t, trainer.parallel().size()), Count(tokens),
      tokens / double(corpus.train.size()), tokens * FlopsPerToken(t.model) * 1e-12,
      t.precision == Precision::kBf16 ? "bf16" : "fp32", t.lr, t.seed);
  return out + DescribeSharding(t, trainer.parallel());
}

std::string DescribeBalance(const RankReports& report) {
  const weft_shard_report_t& summary = report.summary;
  if (summary.rank_count < 2) return "";
  uint64_t least = UINT64_MAX, most = 0;
  for (const weft_shard_rank_report_t& rank : report.ranks) {
    const uint64_t bytes =
        rank.param_bytes + rank.grad_bytes + rank.optimizer_bytes + rank.pool_bytes;
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  return fmt::format("ranks  {} (rank {}) to {} (rank {}) parameters each, {} to {} of memory\n",
                     summary.smallest_element_count, summary.smallest_rank,
                     summary.largest_element_count, summary.largest_rank, Bytes(least),
                     Bytes(most));
}

std::string DescribeSlowest(const weft_shard_report_t& summary) {
  constexpr double kNoted = 1.1;
  const double median = double(summary.median_busy_ns);
  const double slowest = double(summary.slowest_busy_ns);
  if (summary.slowest_rank < 0 || median <= 0 || slowest <= kNoted * median) return "";
  return fmt::format("rank {} {:.0f} % slower", summary.slowest_rank, 100 * (slowest / median - 1));
}

std::string Printable(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (c != '\n' && c != '\t' && (c < 32 || c > 126)) c = '?';
  }
  return out;
}

}  // namespace weft::trainer
