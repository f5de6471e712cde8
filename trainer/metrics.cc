#include "trainer/metrics.h"

#include <filesystem>
#include <system_error>

#include <nlohmann/json.hpp>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr int kVersion = 1;  // of the lines; docs/formats/metrics.md

}  // namespace

MetricsWriter::MetricsWriter(const std::string& directory) : directory_(directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) out_.open(directory + "/metrics.jsonl", std::ios::trunc);
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
  if (val_loss) out_.flush();
}

void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text) {
  std::ofstream out(directory + "/" + name, std::ios::trunc | std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw RunFailure("cannot write " + directory + "/" + name + "; is the disk full?");
}

}  // namespace weft::trainer
