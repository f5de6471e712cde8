// What `weftctl tune` prints of a model of a machine, as text or as JSON.
//
//   std::string text = TuneAsText(host, loaded);
//   for (const auto& [name, value] : MembersOf(Choose(loaded.model, 2))) ...
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "comm/select/load_model.h"
#include "comm/select/tuning.h"

namespace weft {

// The numbers of ranks that are shown.
constexpr int kTuneRankCounts[] = {2, 4, 8};

// The choices of a Tuning by name, in the order in which they are shown; kNever is "never".
std::vector<std::pair<const char*, uint64_t>> MembersOf(const Tuning& tuning);

// For people: the machine, its costs, what was chosen, and predictions.
std::string TuneAsText(const HostFacts& host, const LoadedModel& loaded);

// For programs: the same and more, as one JSON document that ends with a new line.
std::string TuneAsJson(const HostFacts& host, const LoadedModel& loaded);

}  // namespace weft
