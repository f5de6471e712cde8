// Dumps made readable: what `weftctl dump` prints as text or as JSON.
//
//   DumpReport report = MakeDumpReport(path, dump);
//   std::string text = DumpAsText(report);
//   std::string json = DumpsAsJson({report, other});
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/recorder/dump.h"

namespace weft {

// A dump with its calls made readable.
struct DumpReport {
  std::string path;
  RecorderDump dump;
  std::vector<std::vector<RecordedCall>> calls;  // by rank, oldest first
  uint64_t newest_ticks = 0;                     // of the last call of any rank
};

// `path` is where `dump` was read from.
DumpReport MakeDumpReport(std::string path, RecorderDump dump);

// Ranks by what they called, in words.
using DumpParties = std::map<std::string, std::vector<size_t>>;

// Sequence numbers at which ranks called different things, and who called what.
std::map<uint64_t, DumpParties> DifferencesOf(const DumpReport& report);

// For people: the last calls of each rank, then where they differ.
std::string DumpAsText(const DumpReport& report);

// For programs: everything, as one JSON document that ends with a new line. Text that is not UTF-8 is
// replaced, so that the rest stays readable.
std::string DumpsAsJson(const std::vector<DumpReport>& reports);

}  // namespace weft
