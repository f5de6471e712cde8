// The sentences of a group's end, each from what the segment and the recorder of its ranks show at that moment. What takes
// part in them may be stopped or late, so the ranks are given a moment to show whom they wait for before one is named.
#include "comm/node/failure.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/long_wait.h"
#include "comm/recorder/describe.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kSettleNs = 50'000'000;  // twice what a rank takes at most to look again
constexpr int kSettleRounds = 25;

const char* NameOfCall(const Operation& operation) {
  return CallName(operation.call().kind, operation.call().purpose.record);
}

}  // namespace

absl::Status FailureReporter::Cause() const {
  return state_.board.Cause(names_.group());
}

void FailureReporter::Raise(const absl::Status& status) {
  MutexLock lock(raise_mutex_);
  if (state_.board.Raise(state_.rank, status)) RecordEnd(status);
  for (int peer = 0; peer < state_.size; ++peer) {
    NotifyAll(state_.control(peer).waiters);
    NotifyAll(state_.segment.messages(peer).waiters);
  }
  if (state_.tuning.combine != 0) NotifyAll(state_.segment.arrival_counter().waiters);
}

// What this rank has found, before it wakes the others.
void FailureReporter::RecordEnd(const absl::Status& status) const {
  const ErrorFields fields = FieldsOf(status);
  if (ResultOf(status) == WEFT_PEER_LOST && fields.signal >= 0) {
    state_.lifecycle.Record({.kind = LifecycleKind::kPeerEnded,
                             .epoch = state_.epoch,
                             .rank = fields.rank,
                             .signal = fields.signal,
                             .exit_code = fields.exit_code,
                             .sequence = fields.sequence});
  }
  state_.lifecycle.Record({.kind = LifecycleKind::kFailed,
                           .epoch = state_.epoch,
                           .rank = fields.rank,
                           .result = ResultOf(status),
                           .sequence = fields.sequence});
}

ErrorFields FailureReporter::FieldsFor(const Operation* operation, int culprit) const {
  ErrorFields fields = names_.FieldsOf(culprit);
  if (operation != nullptr) {
    fields.sequence = static_cast<int64_t>(operation->sequence());
    fields.operation = NameOfCall(*operation);
  }
  return fields;
}

std::string FailureReporter::Heading(const Operation* operation) const {
  if (operation == nullptr) return fmt::format("group {}: ", names_.group());
  return fmt::format("{} #{} on group {}: ", NameOfCall(*operation), operation->sequence(),
                     names_.group());
}

std::string FailureReporter::WhereIs(int peer) const {
  const NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
  std::string facts =
      fmt::format("host {}, pid {}", process.identity().host, process.identity().pid);
  if (const auto last = state_.segment.recorder(peer).Last()) {
    facts += fmt::format(", last call {} #{}", CallName(*last), last->sequence);
  } else {
    facts += ", no call yet";
  }
  if (!process.is_self()) {
    facts += fmt::format(", process {}", process.StateName());
  }
  return names_.NameOf(peer, facts);
}

// A rank that has begun to wait just now has not said so yet, but a stopped one never will.
std::vector<int> FailureReporter::FindHoldingUp(const std::vector<int>& awaited) const {
  std::vector<int> found;
  const auto stopped = [&] {
    found = RanksHoldingUp(state_, awaited);
    return state_.peers[static_cast<size_t>(found.front())]->Stopped();
  };
  EventCount nap;
  for (int round = 0; round < kSettleRounds; ++round) {
    Deadline brief{kSettleNs / kSettleRounds};
    const WaitResult result = WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 0}, brief, stopped,
                                        [&] { return state_.aborted(); });
    if (result != WaitResult::kDeadline) break;
  }
  return found.empty() ? awaited : found;
}

absl::Status FailureReporter::Timeout(const Operation& operation, const WaitTarget& target,
                                      int64_t timeout_ns) const {
  ShowLongWait(state_, operation);
  std::vector<int> awaited = RanksAwaited(state_);
  if (awaited.empty()) awaited.push_back(target.peer);
  const std::vector<int> found = FindHoldingUp(awaited);
  const double seconds = static_cast<double>(timeout_ns) * 1e-9;
  return MakeError(WEFT_TIMEOUT, FieldsFor(&operation, found.front()),
                   Heading(&operation) + HoldingUp(operation.sequence(), found, awaited, seconds));
}

std::string FailureReporter::HoldingUp(uint64_t sequence, const std::vector<int>& holding_up,
                                       const std::vector<int>& awaited, double seconds) const {
  std::vector<int> missing;
  std::vector<int> late;
  for (const int rank : holding_up) {
    const Arrival& line = state_.control(rank).arrivals[sequence % kWindow];
    const auto lag = static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) -
                                          static_cast<uint32_t>(sequence));
    (lag < 0 ? missing : late).push_back(rank);
  }
  std::string text;
  if (!missing.empty()) {
    text = fmt::format("{} did not arrive within {:.3g} s", fmt::join(WhereAre(missing), ", "),
                       seconds);
  }
  if (!late.empty()) {
    text +=
        fmt::format("{}{} arrived but {} not done {} part within {:.3g} s",
                    missing.empty() ? "" : "; ", fmt::join(WhereAre(late), ", "),
                    late.size() == 1 ? "has" : "have", late.size() == 1 ? "its" : "their", seconds);
  }
  return text + WaitAsWell(holding_up, awaited);
}

std::string FailureReporter::Missing(const std::vector<int>& holding_up,
                                     const std::vector<int>& awaited) const {
  return fmt::format("{} did not come to it", fmt::join(WhereAre(holding_up), ", ")) +
         WaitAsWell(holding_up, awaited);
}

std::vector<std::string> FailureReporter::WhereAre(const std::vector<int>& ranks) const {
  std::vector<std::string> places;
  places.reserve(ranks.size());
  for (const int rank : ranks)
    places.push_back(WhereIs(rank));
  return places;
}

std::string FailureReporter::WaitAsWell(const std::vector<int>& holding_up,
                                        const std::vector<int>& awaited) const {
  std::vector<int> waiting;
  for (const int rank : awaited) {
    if (std::find(holding_up.begin(), holding_up.end(), rank) == holding_up.end()) {
      waiting.push_back(rank);
    }
  }
  if (waiting.empty()) return "";
  return fmt::format("; {} wait{} as well", names_.ListOf(waiting), waiting.size() == 1 ? "s" : "");
}

absl::Status FailureReporter::PeerLost(const Operation* operation, int peer,
                                       const ExitInfo& exit) const {
  ErrorFields fields = FieldsFor(operation, peer);
  fields.signal = exit.signal;
  fields.exit_code = exit.exit_code;
  const RecorderRing ring = state_.segment.recorder(peer);
  const auto last = ring.Last();
  return MakeError(
      WEFT_PEER_LOST, fields,
      fmt::format("{}{} {}; its last call was {}", Heading(operation),
                  names_.NameOf(peer, fmt::format("host {}, pid {}", fields.host, fields.pid)),
                  exit.ToString(),
                  last ? fmt::format("{} #{}", CallName(*last), last->sequence) : "none"));
}

absl::Status FailureReporter::FirstLost(const Operation* operation) const {
  for (int peer = 0; peer < state_.size; ++peer) {
    const std::optional<ExitInfo> exit = state_.LossOf(peer);
    if (exit) return PeerLost(operation, peer, *exit);
  }
  return absl::OkStatus();
}

// Who leaves may have seen in another group that a rank is gone.
absl::Status FailureReporter::PeerLeft(const Operation& operation, int peer) const {
  const absl::Status lost = FirstLost(&operation);
  if (!lost.ok()) {
    return MakeError(WEFT_PEER_LOST, FieldsOf(lost),
                     fmt::format("{}; then {} left the group", std::string(lost.message()),
                                 names_.NameOf(peer)));
  }
  return MakeError(WEFT_PEER_LOST, FieldsFor(&operation, peer),
                   fmt::format("{}{} has left the group (it destroyed its handle); all ranks "
                               "must issue the same operations",
                               Heading(&operation), names_.NameOf(peer)));
}

absl::Status FailureReporter::PeerReplaced(const Operation& operation, int peer) const {
  const ErrorFields fields = FieldsFor(&operation, peer);
  return MakeError(
      WEFT_PEER_LOST, fields,
      fmt::format("{}{} runs another program by now (exec); what it announced is gone",
                  Heading(&operation),
                  names_.NameOf(peer, fmt::format("host {}, pid {}", fields.host, fields.pid))));
}

absl::Status FailureReporter::Local(const Operation& operation, const absl::Status& cause) const {
  if (ResultOf(cause) == WEFT_MISMATCH) {  // every rank finds the same
    return MakeError(WEFT_MISMATCH, FieldsFor(&operation, FieldsOf(cause).rank),
                     Heading(&operation) + std::string(cause.message()));
  }
  return MakeError(ResultOf(cause), FieldsFor(&operation, state_.rank),
                   fmt::format("{}{}: {}", Heading(&operation), names_.NameOf(state_.rank),
                               std::string(cause.message())));
}

// Who aborts may have seen that a rank is gone before weft has: then that is why the group ends.
absl::Status FailureReporter::Aborted(std::string_view reason) const {
  const std::string told = fmt::format("aborted by {}{}{}", names_.NameOf(state_.rank),
                                       reason.empty() ? "" : ": ", reason);
  const absl::Status lost = FirstLost(nullptr);
  if (!lost.ok()) {
    return MakeError(WEFT_PEER_LOST, FieldsOf(lost),
                     fmt::format("{}; then the group was {}", std::string(lost.message()), told));
  }
  return MakeError(WEFT_ABORTED, FieldsFor(nullptr, state_.rank),
                   fmt::format("group {} was {}", names_.group(), told));
}

absl::Status FailureReporter::Interrupted(const Operation& operation) const {
  return MakeError(WEFT_ABORTED, FieldsFor(&operation, state_.rank),
                   fmt::format("{}{} was interrupted by its program (weft_set_interrupt)",
                               Heading(&operation), names_.NameOf(state_.rank)));
}

absl::Status FailureReporter::Elsewhere(const absl::Status& cause) const {
  ErrorFields fields = FieldsOf(cause);
  const bool of_this =
      fields.group == names_.group() && fields.rank >= 0 && fields.rank < state_.size;
  if (fields.world_rank < 0 && of_this) fields.world_rank = state_.WorldRank(fields.rank);
  fields.rank = -1;
  for (int rank = 0; rank < state_.size && fields.world_rank >= 0; ++rank) {
    if (state_.WorldRank(rank) == fields.world_rank) fields.rank = rank;
  }
  return MakeError(ResultOf(cause), fields, std::string(cause.message()));
}

}  // namespace weft
