// What is shown is for the eye: loss and rate are running averages, so that one step does not make
// them jump; metrics.jsonl has every step. A loss that is not finite stays out of the average,
// where it would remain for ever.
#include "trainer/progress.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "trainer/plan.h"

namespace weft::trainer {
namespace {

constexpr double kLineSeconds = 5;      // between plain lines
constexpr double kRedrawSeconds = 0.1;  // between redraws
constexpr double kKeep = 0.95;          // of the running averages

// Whether a terminal shows it where it stands: no control character, no mark that changes the
// direction of what follows.
bool IsShown(uint32_t c) {
  if (c < 0xa0) return c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f);
  const bool turns = (c >= 0x200e && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
                     (c >= 0x2066 && c <= 0x2069) || c == 0x61c;
  const bool separates = c == 0x2028 || c == 0x2029;
  return !turns && !separates && (c < 0xfdd0 || c > 0xfdef) && (c & 0xfffe) != 0xfffe;
}

// The bytes of the character that `text` begins with; 0: none of UTF-8, or one that is not to be
// shown.
size_t ShownBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return uint32_t(uint8_t(text[i]));
  };
  const uint32_t first = byte(0);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  uint32_t character = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800,
                                 0x10000};  // what would have fitted into less bytes is none
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < kLeast[bytes] || surrogate || character > 0x10ffff) return 0;
  return IsShown(character) ? bytes : 0;
}

// "60 files and nine tenths of 5 large ones".
std::string Side(size_t whole, const char* which, size_t cut, const char* part) {
  std::string files = fmt::format("{} {}file{}", whole, which, whole == 1 ? "" : "s");
  const char* const ending = cut == 1 ? "" : "s";
  if (cut == 0) return files;
  if (whole == 0) return fmt::format("{} {} large file{}", part, cut, ending);
  return fmt::format("{} and {} {} large one{}", files, part, cut, ending);
}

}  // namespace

Progress::Progress(const TrainConfig& config, bool terminal)
    : config_(config), terminal_(terminal), work_(terminal) {}

std::string Progress::Line(const StepRecord& record) const {
  const double share = seconds_ > 0 ? 100 * exposed_ / seconds_ : 0;
  const double left = seconds_ / steps_ * double(config_.steps - record.step);
  const std::string val = val_loss_ ? fmt::format("{:.3f}", *val_loss_) : "-";
  return fmt::format("step {}/{} | loss {:.3f} | val {} | {} tok/s | comm {:.1f} % | eta {}{}{}",
                     record.step, config_.steps, loss_, val, FormatCount(tok_s_), share,
                     ClockTime(left), slowest_.empty() ? "" : " | ", slowest_);
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
  const std::string bar = BarOf(double(record.step) / double(config_.steps));
  return fmt::format("\r\033[K{} {}", bar, Line(record));
}

std::string Progress::DescribeSpeed() const {
  if (seconds_ <= 0) return "no step was made";
  return fmt::format("{:.1f} s of steps, {:.0f} tok/s, {:.1f} % waiting for communication",
                     seconds_, tokens_ / seconds_, 100 * exposed_ / seconds_);
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
                     summary.largest_element_count, summary.largest_rank, FormatBytes(least),
                     FormatBytes(most));
}

std::string DescribeSlowest(const weft_shard_report_t& summary) {
  constexpr double kNoted = 1.1;
  const double median = double(summary.median_busy_ns);
  const double slowest = double(summary.slowest_busy_ns);
  if (summary.slowest_rank < 0 || median <= 0 || slowest <= kNoted * median) return "";
  return fmt::format("rank {} {:.0f} % slower", summary.slowest_rank, 100 * (slowest / median - 1));
}

std::string Printable(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = ShownBytes(std::string_view(text).substr(i));
    out += bytes > 0 ? text.substr(i, bytes) : "?";
    i += std::max<size_t>(bytes, 1);
  }
  return out;
}

}  // namespace weft::trainer
