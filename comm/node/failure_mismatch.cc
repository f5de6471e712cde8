#include <algorithm>
#include <bitset>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/group/refusal.h"
#include "comm/node/failure.h"
#include "comm/node/segment_notices.h"
#include "comm/recorder/describe.h"
#include "fmt/format.h"

namespace weft {
namespace {

// The group has ended by then, and on a busy machine a rank that is on its way may not run for long.
constexpr int64_t kAttendanceNs = 500'000'000;
constexpr int kAttendanceRounds = 250;

// The counts of a call that has several; the first few of many.
std::string CountsOf(const Collective& call) {
  constexpr size_t kListed = 8;
  const BlockLayout& layout = *call.layout;
  std::vector<size_t> counts =
      call.kind == OpKind::kAllGatherV ? layout.out_counts : layout.in_counts;
  for (const weft_iov_t& part : layout.parts)
    counts.push_back(part.count);
  for (size_t& count : counts)
    count *= ValuesPerElement(call);
  const bool more = counts.size() > kListed;
  counts.resize(std::min(counts.size(), kListed));
  return fmt::format("{}{}", fmt::join(counts, ", "), more ? ", ..." : "");
}

// "\"complex product\" over elements of 2 values".
std::string ReductionText(const CustomOp& op) {
  const bool compound = op.element_count > 1;
  return fmt::format("\"{}\"{}", op.name,
                     compound ? fmt::format(" over elements of {} values", op.element_count) : "");
}

// What tells a call from one that has the same words: this rank knows what its own signature stands for.
std::string Distinction(const RecordedCall& call, const Operation& own) {
  const std::string_view only = OnlySigned(call);
  if (only.empty()) return fmt::format(" (signature {:08x})", call.signature);
  if (call.signature != own.signature()) {
    return fmt::format(" with other {} (signature {:08x})", only, call.signature);
  }
  if (only == "counts") return fmt::format(" with counts {}", CountsOf(own.call()));
  return fmt::format(" with the reduction {}", ReductionText(*own.call().custom));
}

// "; rank 2 says: ..." of the first of them that can be read.
std::string WhyRefused(const NodeState& state, const std::map<int, uint64_t>& refusals) {
  for (const auto& [peer, purpose] : refusals) {
    const auto read = [&state, rank = peer](int place, WaitNotice* notice) {
      return ReadNotice(state.control(rank).notices[place], notice);
    };
    std::string text = RefusalText(state.GroupRank(peer), purpose, read);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

// Gives the others a moment to arrive, so that the sentence has all calls. Whoever comes later than
// that is busy elsewhere and left out.
void FailureReporter::AwaitRecords(uint64_t sequence) const {
  std::bitset<kNodeRanksMax> gone;  // and come no more
  const auto complete = [&] {
    for (int peer = 0; peer < state_.size; ++peer) {
      const bool awaited = !gone[static_cast<size_t>(peer)];
      if (awaited && !state_.segment.recorder(peer).Find(sequence)) return false;
    }
    return true;
  };
  EventCount nap;
  for (int round = 0; round < kAttendanceRounds; ++round) {
    for (int peer = 0; peer < state_.size; ++peer)
      gone.set(static_cast<size_t>(peer), state_.HasLeft(peer) || state_.LossOf(peer).has_value());
    Deadline brief{kAttendanceNs / kAttendanceRounds};
    const WaitResult result = WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 20}, brief, complete,
                                        [&] { return state_.aborted(); });
    if (result != WaitResult::kDeadline) return;
  }
}

// Ranks that made the same call are listed together, the smaller party first. One rank is blamed only
// if it has refused the call, or if more than half of the group made another call, all of them the same.
absl::Status FailureReporter::Mismatch(const Operation& operation) const {
  AwaitRecords(operation.sequence());
  const PurposeNames* const names = operation.call().purpose.names;
  std::map<std::string, std::set<uint32_t>> signatures;  // by what is called in words
  std::map<int, uint64_t> refusals;                      // by rank
  std::vector<std::optional<RecordedCall>> calls;
  for (int peer = 0; peer < state_.size; ++peer) {
    calls.push_back(state_.segment.recorder(peer).Find(operation.sequence()));
    if (!calls.back()) continue;
    signatures[CalledText(*calls.back(), names)].insert(calls.back()->signature);
    if (IsRefusal(calls.back()->purpose)) refusals[peer] = calls.back()->purpose;
  }
  // The default is named only beside the other.
  const bool fast = std::any_of(calls.begin(), calls.end(), [](const auto& call) {
    return call && call->numerics == WEFT_NUMERICS_FAST;
  });
  std::map<std::string, std::vector<int>> parties;
  for (int peer = 0; peer < state_.size; ++peer) {
    const std::optional<RecordedCall>& call = calls[static_cast<size_t>(peer)];
    if (!call) continue;
    std::string words = CalledText(*call, names);
    const bool several = signatures[words].size() > 1;
    if (fast && call->numerics == WEFT_NUMERICS_CANONICAL) words += " with numerics canonical";
    if (several) words += Distinction(*call, operation);
    parties[words].push_back(peer);
  }
  std::vector<std::pair<std::string, std::vector<int>>> sorted(parties.begin(), parties.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text = Heading(&operation);
  for (size_t i = 0; i < sorted.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", names_.ListOf(sorted[i].second),
                        sorted[i].first);
  }
  if (!refusals.empty()) {
    const int refuses = refusals.size() == 1 ? refusals.begin()->first : -1;
    return MakeError(WEFT_MISMATCH, FieldsFor(&operation, refuses),
                     text + WhyRefused(state_, refusals));
  }
  text += "; all ranks must issue the same operations in the same order";
  const bool clear = sorted.size() == 2 && sorted[0].second.size() == 1 &&
                     2 * sorted[1].second.size() > static_cast<size_t>(state_.size);
  return MakeError(WEFT_MISMATCH, FieldsFor(&operation, clear ? sorted[0].second[0] : -1), text);
}

}  // namespace weft
