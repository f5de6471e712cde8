#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/node/failure.h"
#include "comm/recorder/describe.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kAttendanceNs = 50'000'000;
constexpr int kAttendanceRounds = 25;

}  // namespace

// Gives the others a moment to arrive, so that the sentence has all calls. Whoever comes later than
// that is busy elsewhere and left out.
void FailureReporter::AwaitRecords(uint64_t sequence) const {
  const auto complete = [&] {
    for (int peer = 0; peer < state_.size; ++peer) {
      if (!state_.segment.recorder(peer).Find(sequence)) return false;
    }
    return true;
  };
  Bell nap;
  for (int round = 0; round < kAttendanceRounds; ++round) {
    Deadline brief{kAttendanceNs / kAttendanceRounds};
    const WaitResult result = WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 20}, brief, complete,
                                        [&] { return state_.aborted(); });
    if (result != WaitResult::kDeadline) return;
  }
}

// Ranks that made the same call are listed together, the smaller party first. One rank is blamed only
// if more than half of the group made another call, all of them the same.
absl::Status FailureReporter::Mismatch(const Operation& operation) const {
  AwaitRecords(operation.sequence());
  std::map<std::string, std::vector<int>> parties;
  const auto list = [&](bool with_signature) {
    parties.clear();
    for (int peer = 0; peer < state_.size; ++peer) {
      const auto call = state_.segment.recorder(peer).Find(operation.sequence());
      if (!call) continue;
      const std::string signature =
          with_signature ? fmt::format(" (signature {:08x})", call->signature) : "";
      parties[Describe(*call) + signature].push_back(peer);
    }
  };
  list(/*with_signature=*/false);
  const bool alike = parties.size() == 1;
  if (alike) list(/*with_signature=*/true);
  std::vector<std::pair<std::string, std::vector<int>>> sorted(parties.begin(), parties.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text = Heading(&operation);
  for (size_t i = 0; i < sorted.size(); ++i) {
    text += fmt::format("{}{} called {}", i == 0 ? "" : ", ", ListOf(sorted[i].second),
                        sorted[i].first);
  }
  if (alike) {
    text +=
        "; what looks alike is of another step, micro-batch or context of a shard manager, or a "
        "part "
        "of another call (weft_group_split, weft_mem_alloc_shared)";
  }
  text += "; all ranks must issue the same operations in the same order";
  const bool clear = sorted.size() == 2 && sorted[0].second.size() == 1 &&
                     2 * sorted[1].second.size() > static_cast<size_t>(state_.size);
  return MakeError(WEFT_MISMATCH, FieldsFor(&operation, clear ? sorted[0].second[0] : -1), text);
}

}  // namespace weft
