// Many ranks find the same failure at the same time, each a different consequence of it, and the user shall read one
// sentence, the same on all of them. So who finds one writes a record of its own and then claims one word for it; all
// else follows from the order: records are written before they can be read and never again, and only an abort, which says
// nothing of a cause, gives way.
#include "comm/node/failure.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/long_wait.h"
#include "fmt/format.h"

namespace weft {
namespace {

template <size_t N>
std::string ReadText(const char (&from)[N]) {
  return std::string(from, strnlen(from, N));
}

constexpr int64_t kSettleNs = 50'000'000;  // twice what a rank takes at most to look again
constexpr int kSettleRounds = 25;

}  // namespace

absl::Status FailureReporter::Cause() const {
  const uint64_t word = state_.segment.header().abort.load(std::memory_order_seq_cst);
  if (word == 0) return absl::OkStatus();
  const AbortWord abort = AbortWord::Unpack(word);
  if (abort.finder >= state_.size) {
    return MakeError(WEFT_CORRUPT, fmt::format("group {}: its abort word names rank {} of {}",
                                               group_, abort.finder, state_.size));
  }
  const AbortRecord& record = state_.control(abort.finder).abort_record;
  ErrorFields fields;
  fields.rank = record.culprit;
  fields.pid = record.pid;
  fields.signal = record.signal;
  fields.exit_code = record.exit_code;
  fields.sequence = record.sequence;
  fields.host = ReadText(record.host);
  fields.group = group_;
  fields.operation = ReadText(record.operation);
  fields.world_rank = record.world_rank;
  return MakeError(static_cast<weft_result_t>(abort.result), fields, ReadText(record.text));
}

// What is found after an abort is its consequence, unless it cannot be: ranks that have heard of the abort may end as
// they like, and the aborting one before all. Whoever aborts has looked for the dead.
bool FailureReporter::MayReplace(uint64_t recorded, const absl::Status& status) const {
  if (recorded == 0) return true;
  const AbortWord abort = AbortWord::Unpack(recorded);
  // A record is not written again while it may be read.
  if (abort.result != WEFT_ABORTED || abort.finder == state_.rank) return false;
  const weft_result_t result = ResultOf(status);
  if (result == WEFT_MISMATCH || result == WEFT_TIMEOUT) return true;
  const ErrorFields fields = FieldsOf(status);
  const bool died = result == WEFT_PEER_LOST && (fields.signal >= 0 || fields.exit_code >= 0);
  return died && fields.rank >= 0 && fields.rank != abort.finder &&
         state_.control(fields.rank).acknowledged.load(std::memory_order_seq_cst) == 0;
}

void FailureReporter::Raise(const absl::Status& status) {
  MutexLock lock(raise_mutex_);
  std::atomic<uint64_t>& word = state_.segment.header().abort;
  uint64_t recorded = word.load(std::memory_order_seq_cst);
  while (MayReplace(recorded, status)) {
    const ErrorFields fields = FieldsOf(status);
    AbortRecord& record = state_.self().abort_record;
    record.culprit = fields.rank;
    record.pid = fields.pid;
    record.signal = fields.signal;
    record.exit_code = fields.exit_code;
    record.sequence = fields.sequence;
    record.world_rank = fields.world_rank;
    CopyText(record.host, fields.host);
    CopyText(record.operation, fields.operation);
    CopyText(record.text, std::string(status.message()));
    const AbortWord own{static_cast<uint16_t>(ResultOf(status)),
                        static_cast<uint16_t>(state_.rank)};
    if (word.compare_exchange_strong(recorded, own.Pack(), std::memory_order_seq_cst)) break;
  }
  for (int peer = 0; peer < state_.size; ++peer) {
    NotifyAll(state_.control(peer).waiters);
    NotifyAll(state_.segment.messages(peer).waiters);
  }
  if (state_.tuning.combine != 0) NotifyAll(state_.segment.arrival_counter().waiters);
}

ErrorFields FailureReporter::FieldsFor(const Operation* operation, int culprit) const {
  ErrorFields fields;
  fields.group = group_;
  if (operation != nullptr) {
    fields.sequence = static_cast<int64_t>(operation->sequence());
    fields.operation = OpKindName(operation->call().kind);
  }
  if (culprit >= 0) {
    const auto& identity = state_.peers[static_cast<size_t>(culprit)]->identity();
    fields.rank = culprit;
    fields.world_rank = state_.WorldRank(culprit);
    fields.pid = identity.pid;
    fields.host = identity.host;
  }
  return fields;
}

std::string FailureReporter::Heading(const Operation* operation) const {
  if (operation == nullptr) return fmt::format("group {}: ", group_);
  return fmt::format("{} #{} on group {}: ", OpKindName(operation->call().kind),
                     operation->sequence(), group_);
}

// "world rank 6", "world ranks 4, 6"; of another first group than "world" "ranks 4, 6 of group jobs".
std::string FailureReporter::WorldRanks(const std::vector<int>& ranks) const {
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const int rank : ranks)
    numbers.push_back(state_.WorldRank(rank));
  const std::string list =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
  return state_.world_name == "world" ? "world " + list
                                      : fmt::format("{} of group {}", list, state_.world_name);
}

std::string FailureReporter::ListOf(const std::vector<int>& ranks) const {
  std::string list = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  if (state_.world_ranks.empty()) return list;
  return fmt::format("{} of group {} ({})", list, group_, WorldRanks(ranks));
}

std::string FailureReporter::NameOf(int peer, std::string_view facts) const {
  if (facts.empty()) return ListOf({peer});
  if (state_.world_ranks.empty()) return fmt::format("rank {} ({})", peer, facts);
  return fmt::format("rank {} of group {} ({}, {})", peer, group_, WorldRanks({peer}), facts);
}

std::string FailureReporter::WhereIs(int peer) const {
  const NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
  std::string facts =
      fmt::format("host {}, pid {}", process.identity().host, process.identity().pid);
  if (const auto last = state_.segment.recorder(peer).Last()) {
    facts += fmt::format(", last call {} #{}", OpKindName(last->kind), last->sequence);
  } else {
    facts += ", no call yet";
  }
  if (!process.is_self()) {
    facts += fmt::format(", process {}", process.StateName());
  }
  return NameOf(peer, facts);
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
  ShowLongWait(state_, operation.sequence(), target);
  std::vector<int> awaited = RanksAwaited(state_);
  if (awaited.empty()) awaited.push_back(target.peer);
  const std::vector<int> found = FindHoldingUp(awaited);
  std::vector<std::string> missing;
  std::vector<std::string> late;
  for (const int rank : found) {
    const Arrival& line = state_.control(rank).arrivals[operation.sequence() % kWindow];
    const auto lag = static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) -
                                          static_cast<uint32_t>(operation.sequence()));
    (lag < 0 ? missing : late).push_back(WhereIs(rank));
  }
  const double seconds = static_cast<double>(timeout_ns) * 1e-9;
  std::string text = Heading(&operation);
  if (!missing.empty()) {
    text += fmt::format("{} did not arrive within {:.3g} s", fmt::join(missing, ", "), seconds);
  }
  if (!late.empty()) {
    text +=
        fmt::format("{}{} arrived but {} not done {} part within {:.3g} s",
                    missing.empty() ? "" : "; ", fmt::join(late, ", "),
                    late.size() == 1 ? "has" : "have", late.size() == 1 ? "its" : "their", seconds);
  }
  std::vector<int> waiting;
  for (const int rank : awaited) {
    if (std::find(found.begin(), found.end(), rank) == found.end()) waiting.push_back(rank);
  }
  if (!waiting.empty()) {
    text += fmt::format("; {} wait{} as well", ListOf(waiting), waiting.size() == 1 ? "s" : "");
  }
  return MakeError(WEFT_TIMEOUT, FieldsFor(&operation, found.front()), text);
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
                  NameOf(peer, fmt::format("host {}, pid {}", fields.host, fields.pid)),
                  exit.ToString(),
                  last ? fmt::format("{} #{}", OpKindName(last->kind), last->sequence) : "none"));
}

absl::Status FailureReporter::FirstLost(const Operation* operation) const {
  for (int peer = 0; peer < state_.size; ++peer) {
    if (state_.control(peer).state.load(std::memory_order_acquire) != RankState::kJoined) continue;
    const std::optional<ExitInfo> exit = state_.peers[static_cast<size_t>(peer)]->Ended();
    if (exit) return PeerLost(operation, peer, *exit);
  }
  return absl::OkStatus();
}

// Who leaves may have seen in another group that a rank is gone.
absl::Status FailureReporter::PeerLeft(const Operation& operation, int peer) const {
  const absl::Status lost = FirstLost(&operation);
  if (!lost.ok()) {
    return MakeError(
        WEFT_PEER_LOST, FieldsOf(lost),
        fmt::format("{}; then {} left the group", std::string(lost.message()), NameOf(peer)));
  }
  return MakeError(WEFT_PEER_LOST, FieldsFor(&operation, peer),
                   fmt::format("{}{} has left the group (it destroyed its handle); all ranks "
                               "must issue the same operations",
                               Heading(&operation), NameOf(peer)));
}

absl::Status FailureReporter::PeerReplaced(const Operation& operation, int peer) const {
  const ErrorFields fields = FieldsFor(&operation, peer);
  return MakeError(
      WEFT_PEER_LOST, fields,
      fmt::format("{}rank {} (host {}, pid {}) runs another program by now (exec); what it "
                  "announced is gone",
                  Heading(&operation), peer, fields.host, fields.pid));
}

absl::Status FailureReporter::Local(const Operation& operation, const absl::Status& cause) const {
  if (ResultOf(cause) == WEFT_MISMATCH) {  // every rank finds the same
    return MakeError(WEFT_MISMATCH, FieldsFor(&operation, FieldsOf(cause).rank),
                     Heading(&operation) + std::string(cause.message()));
  }
  return MakeError(ResultOf(cause), FieldsFor(&operation, state_.rank),
                   fmt::format("{}{}: {}", Heading(&operation), NameOf(state_.rank),
                               std::string(cause.message())));
}

// Who aborts may have seen that a rank is gone before weft has: then that is why the group ends.
absl::Status FailureReporter::Aborted(std::string_view reason) const {
  const std::string told =
      fmt::format("aborted by {}{}{}", NameOf(state_.rank), reason.empty() ? "" : ": ", reason);
  const absl::Status lost = FirstLost(nullptr);
  if (!lost.ok()) {
    return MakeError(WEFT_PEER_LOST, FieldsOf(lost),
                     fmt::format("{}; then the group was {}", std::string(lost.message()), told));
  }
  return MakeError(WEFT_ABORTED, FieldsFor(nullptr, state_.rank),
                   fmt::format("group {} was {}", group_, told));
}

absl::Status FailureReporter::Interrupted(const Operation& operation) const {
  return MakeError(WEFT_ABORTED, FieldsFor(&operation, state_.rank),
                   fmt::format("{}{} was interrupted by its program (weft_set_interrupt)",
                               Heading(&operation), NameOf(state_.rank)));
}

absl::Status FailureReporter::Elsewhere(const absl::Status& cause) const {
  ErrorFields fields = FieldsOf(cause);
  const bool of_this = fields.group == group_ && fields.rank >= 0 && fields.rank < state_.size;
  if (fields.world_rank < 0 && of_this) fields.world_rank = state_.WorldRank(fields.rank);
  fields.rank = -1;
  for (int rank = 0; rank < state_.size && fields.world_rank >= 0; ++rank) {
    if (state_.WorldRank(rank) == fields.world_rank) fields.rank = rank;
  }
  return MakeError(ResultOf(cause), fields, std::string(cause.message()));
}

}  // namespace weft
