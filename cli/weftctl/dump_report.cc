#include "cli/weftctl/dump_report.h"

#include <algorithm>
#include <utility>

#include "comm/recorder/describe.h"

namespace weft {

DumpReport MakeDumpReport(std::string path, RecorderDump dump) {
  DumpReport report{std::move(path), std::move(dump), {}, 0};
  for (const DumpedRank& rank : report.dump.ranks) {
    report.calls.push_back(rank.Calls());
    for (const RecordedCall& call : report.calls.back())
      report.newest_ticks = std::max(report.newest_ticks, call.ticks);
  }
  return report;
}

std::map<uint64_t, DumpParties> DifferencesOf(const DumpReport& report) {
  std::map<uint64_t, DumpParties> by_sequence;
  for (size_t rank = 0; rank < report.calls.size(); ++rank) {
    for (const RecordedCall& call : report.calls[rank])
      by_sequence[call.sequence][Describe(call)].push_back(rank);
  }
  std::erase_if(by_sequence, [](const auto& item) { return item.second.size() < 2; });
  return by_sequence;
}

}  // namespace weft
