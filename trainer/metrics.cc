#include "trainer/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/run_files.h"

namespace weft::trainer {
namespace {

constexpr int kVersion = 2;  // of the lines; docs/formats/metrics.md
constexpr size_t kWaitingBytesMax = 16 << 20;

// Of a finite number; JSON has null for others.
std::optional<double> FiniteOf(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The lines of a file up to that step; a line that is not whole ends them. Returns their bytes.
size_t ReadLines(const std::string& path, size_t last_step, std::vector<KeptLine>& kept) {
  size_t bytes = 0;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text) && !in.eof();) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || line.value("step", last_step + 1) > last_step) break;
    bytes += text.size() + 1;
    kept.push_back({line.value("step", size_t{0}), line.value("time_ns", int64_t{0}),
                    FiniteOf(line, "loss"), FiniteOf(line, "val_loss"),
                    FiniteOf(line, "tok_s").value_or(0)});
  }
  return bytes;
}

// Clocks tell no more, and a line is short.
double Microseconds(double seconds) {
  return std::round(seconds * 1e6) * 1e-6;
}

nlohmann::ordered_json JsonOf(const PhaseSeconds& phases) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < kPhases; i++)
    json[kPhaseNames[i]] = Microseconds(phases[Phase(i)]);
  return json;
}

nlohmann::ordered_json JsonOf(const std::vector<RankFigures>& ranks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const RankFigures& rank : ranks) {
    const double steps = double(std::max<size_t>(rank.steps, 1));
    json.push_back({{"machine", rank.machine},
                    {"steps", rank.steps},
                    {"tok_s", std::round(rank.TokensPerSecond())},
                    {"step_s", Microseconds(rank.seconds / steps)},
                    {"phases_s", JsonOf(rank.phases / steps)},
                    {"peak_bytes", rank.peak_bytes}});
  }
  return json;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& directory, size_t go_on_after)
    : path_(directory + "/metrics.jsonl") {
  MakeRunDirectory(directory);
  const size_t kept_bytes = go_on_after > 0 ? ReadLines(path_, go_on_after, kept_) : 0;
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  // What is kept stays as it is: a full disk has no room for a copy. What is no regular file has no end to move.
  struct stat status = {};
  if (fd_ >= 0 && fstat(fd_, &status) == 0 &&
      (!S_ISREG(status.st_mode) || ftruncate(fd_, off_t(kept_bytes)) == 0)) {
    return;
  }
  const int error = errno;
  if (fd_ >= 0) close(fd_);
  ThrowUnwritable(path_, error);
}

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) close(fd_);
}

void MetricsWriter::Write(const StepRecord& record, int64_t time_ns, double tok_s,
                          std::optional<double> val_loss, const std::vector<RankFigures>& ranks) {
  nlohmann::ordered_json line;
  line["version"] = kVersion;
  line["step"] = record.step;
  line["time_ns"] = time_ns;
  line["loss"] = record.loss;
  line["loss_max"] = record.loss_max;
  if (val_loss) line["val_loss"] = *val_loss;
  line["tok_s"] = tok_s;
  line["comm_exposed_s"] = record.comm_exposed_s;
  line["lr"] = record.lr;
  line["grad_norm"] = record.grad_norm;
  // Of a step that an earlier run has made the checkpoint has no phases.
  if (record.phases.Sum() > 0) {
    line["step_s"] = Microseconds(record.seconds + record.phases[Phase::kCheckpoint]);
    line["phases_s"] = JsonOf(record.phases);
  }
  if (const int slowest = SlowestRank(ranks); slowest >= 0) {
    line["slowest_rank"] = slowest;
    line["ranks"] = JsonOf(ranks);
  }
  if (record.loss_scale != 1) line["loss_scale"] = record.loss_scale;
  if (record.skipped) line["skipped"] = true;
  if (record.outlier) line["outlier"] = true;
  if (waiting_.size() < kWaitingBytesMax) {
    waiting_ += line.dump() + "\n";
  } else {
    lost_lines_++;
  }
  WriteWaiting();  // another rank may have to go on with the file
}

void MetricsWriter::WriteWaiting() {
  error_ = WriteAll(fd_, waiting_);
}

void MetricsWriter::Finish() {
  if (fd_ < 0) return;
  WriteWaiting();
  if (error_ == 0) error_ = SyncFile(fd_);
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 && error_ == 0) error_ = errno;
}

std::string MetricsWriter::Unwritten() const {
  const auto lines = lost_lines_ + size_t(std::ranges::count(waiting_, '\n'));
  if (lines == 0 && error_ == 0) return "";
  return fmt::format("{} lacks {} of its lines: {}", path_,
                     lines > 0 ? fmt::format("{}", lines) : "some",
                     error_ != 0 ? std::strerror(error_) : "there was no room for them");
}

}  // namespace weft::trainer
