#include "bench/weft_perf/output.h"

#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "weft/version.h"

#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {

Output::Output(const Options& options, int argc, char** argv, bool writer) : writer_(writer) {
  report_.options = options;
  if (!writer) return;
  report_.version = WEFT_VERSION_STRING;
  report_.header_version =
      WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH;
  report_.library_version = weft_version();
  report_.start_time = TimeOfDay();
  report_.arguments.assign(argv, argv + argc);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  report_.environment = ReportedEnvironment(environment);
  report_.governor = Governor();
  if (!options.json_path.empty() && !options.repro_world) OpenJson();
}

Output::~Output() {
  if (json_ != nullptr) std::fclose(json_);
}

void Output::OpenJson() {
  std::string used;
  json_ = CreateReportFile(report_.options.json_path, &used);
  if (json_ == nullptr) {
    Print(Printf("# skipping json output; %s not accessible: %s\n", used.c_str(),
                 std::strerror(errno)));
    return;
  }
  Print("# Writing JSON output to " + used + "\n");
  // What a reader finds if the run is killed or crashes.
  report_.errors = {"the run did not end"};
  WriteJson();
  report_.errors.clear();
}

void Output::Print(const std::string& text) const {
  if (!writer_) return;
  const bool put = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!put && table_error_ == 0) table_error_ = errno;
}

void Output::AddRow(Row row) {
  if (!writer_) return;
  row.time_of_day = report_.options.timestamps ? TimeOfDay() : "";
  Print(RowText(row, report_.options));
  report_.rows.push_back(std::move(row));
}

Outcome Output::Finish(Outcome outcome) {
  // Results that are wrong are no error of the run: rows say which, and totals that there are some.
  if (!outcome.ok() && outcome.code != ExitCode::kWrong) report_.errors.push_back(outcome.message);
  if (!report_.options.repro_world) Print(FooterText(report_));
  report_.end_time = TimeOfDay();
  if (json_ != nullptr) {
    WriteJson();
    // What a file system could not store it may say as late as this.
    if (std::fclose(json_) != 0 && json_error_ == 0) json_error_ = errno;
    json_ = nullptr;
  }
  return outcome.ok() ? Written() : outcome;
}

void Output::WriteJson() {
  const std::string text = JsonText(report_);
  std::rewind(json_);
  const bool written = ftruncate(fileno(json_), 0) == 0 &&
                       std::fwrite(text.data(), 1, text.size(), json_) == text.size() &&
                       std::fflush(json_) == 0;
  json_error_ = written ? 0 : errno;
}

Outcome Output::Written() const {
  if (table_error_ != 0 && table_error_ != EPIPE) {
    return Fail(ExitCode::kInternal,
                Printf("writing the table failed: %s", std::strerror(table_error_)));
  }
  if (json_error_ == 0) return {};
  return Fail(ExitCode::kInternal,
              Printf("writing the JSON file failed: %s", std::strerror(json_error_)));
}

}  // namespace weft::perf
