#include "trainer/metrics.h"

#include <filesystem>
#include <system_error>

#include <nlohmann/json.hpp>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr int kVersion = 1;  // of the lines; docs/formats/metrics.md

// Of a finite number; JSON has null for others.
std::optional<double> FiniteOf(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The lines of a file up to that step; a line that is not whole ends them.
std::string WholeLines(const std::string& path, size_t last_step, std::vector<KeptLine>& kept) {
  std::string texts, text;
  std::ifstream in(path);
  while (last_step > 0 && std::getline(in, text)) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || line.value("step", last_step + 1) > last_step) break;
    texts += text + "\n";
    kept.push_back({line.value("step", size_t{0}), line.value("time_ns", int64_t{0}),
                    FiniteOf(line, "loss"), FiniteOf(line, "val_loss")});
  }
  return texts;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& directory, size_t go_on_after)
    : directory_(directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path = directory + "/metrics.jsonl";
  const std::string kept = WholeLines(path, go_on_after, kept_);
  if (!error) out_.open(path, std::ios::trunc);
  out_ << kept << std::flush;
  if (error || !out_) {
    throw BadInput("cannot write to " + directory +
                   (error ? ": " + error.message() : std::string()) +
                   "; choose another --run-dir or --name");
  }
}

void MetricsWriter::Write(const StepRecord& record, int64_t time_ns, double tok_s,
                          std::optional<double> val_loss) {
  nlohmann::ordered_json line;
  line["version"] = kVersion;
  line["step"] = record.step;
  line["time_ns"] = time_ns;
  line["loss"] = record.loss;
  if (val_loss) line["val_loss"] = *val_loss;
  line["tok_s"] = tok_s;
  line["comm_exposed_s"] = record.comm_exposed_s;
  line["lr"] = record.lr;
  line["grad_norm"] = record.grad_norm;
  out_ << line.dump() << "\n";
  out_.flush();  // another rank may have to go on with the file
}

void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text) {
  std::ofstream out(directory + "/" + name, std::ios::trunc | std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw RunFailure("cannot write " + directory + "/" + name + "; is the disk full?");
}

}  // namespace weft::trainer
