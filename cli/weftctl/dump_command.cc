#include "cli/weftctl/dump_command.h"

#include <utility>

#include "cli/weftctl/dump_report.h"
#include "comm/recorder/dump.h"

namespace weft {

DumpOutput FormatDumps(const std::vector<std::string>& paths, bool json) {
  DumpOutput output;
  std::vector<DumpReport> reports;
  for (const std::string& path : paths) {
    absl::StatusOr<RecorderDump> dump = ReadDumpFile(path);
    if (dump.ok()) {
      reports.push_back(MakeDumpReport(path, *std::move(dump)));
    } else {
      output.problems.emplace_back(dump.status().message());
    }
  }
  if (json) {
    output.text = DumpsAsJson(reports);
    return output;
  }
  for (const DumpReport& report : reports)
    output.text += (output.text.empty() ? "" : "\n") + DumpAsText(report);
  return output;
}

}  // namespace weft
