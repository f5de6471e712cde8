// `weftctl dump FILE...`: prints recorder dumps, what each rank had called when an operation failed.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct DumpOutput {
  std::string text;                   // of the files that can be read
  std::vector<std::string> problems;  // a sentence for each of the others
};

// Tables for people with the last operations of each rank, or everything as JSON.
DumpOutput FormatDumps(const std::vector<std::string>& paths, bool json);

}  // namespace weft
