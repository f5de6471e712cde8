#include "trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "trainer/run_files.h"

namespace weft::trainer {
namespace {

constexpr int kVersion = 2;  // of the lines; docs/formats/metrics.md

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
  return std::round(seconds * 1e6) / 1e6;
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

// Makes the directory.
std::string PathIn(const std::string& directory) {
  MakeRunDirectory(directory);
  return directory + "/metrics.jsonl";
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& directory, size_t go_on_after)
    : file_(PathIn(directory),
            go_on_after > 0 ? ReadLines(PathIn(directory), go_on_after, kept_) : 0) {}

std::string MetricsLine(const StepRecord& record, int64_t time_ns, double tok_s,
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
  if (record.MadeHere()) {
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
  return line.dump() + "\n";
}

}  // namespace weft::trainer
