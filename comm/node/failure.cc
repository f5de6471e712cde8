#include "comm/node/failure.h"

#include <cstring>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

template <size_t N>
std::string ReadText(const char (&from)[N]) {
  return std::string(from, strnlen(from, N));
}

// One that the others may wait for while it makes a result for all, or `otherwise`.
int CombiningRank(const NodeState& state, int otherwise) {
  for (int peer = 0; peer < state.size; ++peer) {
    const std::atomic<uint32_t>& combines = state.control(peer).combines;
    if (peer != state.rank && combines.load(std::memory_order_relaxed) != 0) return peer;
  }
  return otherwise;
}

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
  return MakeError(static_cast<weft_result_t>(abort.result), fields, ReadText(record.text));
}

void FailureReporter::Raise(const absl::Status& status) {
  MutexLock lock(raise_mutex_);
  std::atomic<uint64_t>& word = state_.segment.header().abort;
  if (word.load(std::memory_order_seq_cst) == 0) {
    const ErrorFields fields = FieldsOf(status);
    AbortRecord& record = state_.self().abort_record;
    record.culprit = fields.rank;
    record.pid = fields.pid;
    record.signal = fields.signal;
    record.exit_code = fields.exit_code;
    record.sequence = fields.sequence;
    CopyText(record.host, fields.host);
    CopyText(record.operation, fields.operation);
    CopyText(record.text, std::string(status.message()));
    uint64_t expected = 0;
    word.compare_exchange_strong(
        expected,
        AbortWord{static_cast<uint16_t>(ResultOf(status)), static_cast<uint16_t>(state_.rank)}
            .Pack(),
        std::memory_order_seq_cst);
  }
  for (int peer = 0; peer < state_.size; ++peer) {
    Ring(state_.control(peer).bell);
    Ring(state_.segment.messages(peer).bell);
  }
  if (state_.tuning.combine != 0) Ring(state_.segment.combining().bell);
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

std::string FailureReporter::WhereIs(int peer) const {
  const NodePeer& process = *state_.peers[static_cast<size_t>(peer)];
  std::string text = fmt::format("rank {} (host {}, pid {}", peer, process.identity().host,
                                 process.identity().pid);
  if (const auto last = state_.segment.recorder(peer).Last()) {
    text += fmt::format(", last call {} #{}", OpKindName(last->kind), last->sequence);
  } else {
    text += ", no call yet";
  }
  if (!process.is_self()) {
    text += fmt::format(", process {}", process.StateName());
  }
  return text + ")";
}

absl::Status FailureReporter::Timeout(const Operation& operation, const WaitTarget& target,
                                      int64_t timeout_ns) const {
  std::vector<std::string> missing;
  int culprit = -1;
  for (int peer = 0; peer < state_.size; ++peer) {
    const Arrival& line = state_.control(peer).arrivals[operation.sequence() % kWindow];
    const auto lag = static_cast<int32_t>(line.sequence.load(std::memory_order_acquire) -
                                          static_cast<uint32_t>(operation.sequence()));
    if (peer == state_.rank || lag >= 0) continue;
    if (culprit < 0) culprit = peer;
    missing.push_back(WhereIs(peer));
  }
  const double seconds = static_cast<double>(timeout_ns) * 1e-9;
  std::string text = Heading(&operation);
  if (missing.empty()) {
    culprit = target.of_all ? CombiningRank(state_, target.peer) : target.peer;
    text += fmt::format("{} arrived but has not done its part within {:.3g} s", WhereIs(culprit),
                        seconds);
  } else {
    text += fmt::format("{} did not arrive within {:.3g} s", fmt::join(missing, ", "), seconds);
  }
  return MakeError(WEFT_TIMEOUT, FieldsFor(&operation, culprit), text);
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
      fmt::format("{}rank {} (host {}, pid {}) {}; its last call was {}", Heading(operation), peer,
                  fields.host, fields.pid, exit.ToString(),
                  last ? fmt::format("{} #{}", OpKindName(last->kind), last->sequence) : "none"));
}

absl::Status FailureReporter::PeerLeft(const Operation& operation, int peer) const {
  return MakeError(WEFT_PEER_LOST, FieldsFor(&operation, peer),
                   fmt::format("{}rank {} has left the group (it destroyed its handle); all ranks "
                               "must issue the same operations",
                               Heading(&operation), peer));
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
  ErrorFields fields = FieldsFor(&operation, state_.rank);
  return MakeError(
      ResultOf(cause), fields,
      fmt::format("{}rank {}: {}", Heading(&operation), state_.rank, std::string(cause.message())));
}

absl::Status FailureReporter::Aborted(std::string_view reason) const {
  return MakeError(WEFT_ABORTED, FieldsFor(nullptr, state_.rank),
                   fmt::format("group {} was aborted by rank {}{}{}", group_, state_.rank,
                               reason.empty() ? "" : ": ", reason));
}

}  // namespace weft
