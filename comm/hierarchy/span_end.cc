#include "comm/hierarchy/span_end.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

// A way that leads over more islands leads in a circle, most likely.
constexpr uint8_t kTracesMax = 8;

}  // namespace

SpanEnd::SpanEnd(uint64_t group_id, std::string name, std::shared_ptr<ProcessGroup> inner,
                 std::vector<GroupMember> members, std::shared_ptr<const SpanRecords> records)
    : group_id_(group_id),
      name_(std::move(name)),
      inner_(std::move(inner)),
      members_(std::move(members)),
      records_(std::move(records)) {}

int SpanEnd::RankOf(int world_rank) const {
  for (const GroupMember& member : members_) {
    if (world_rank >= 0 && member.world_rank == world_rank) return member.rank;
  }
  return -1;
}

ProcessState SpanEnd::StateOf(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  const absl::StatusOr<std::unique_ptr<PeerProcess>> process =
      SystemSeams().proc->Open(member.pid, member.start_time);
  return process.ok() ? (*process)->State() : ProcessState::kNotKnown;
}

bool SpanEnd::Stalls(int rank) const {
  return records_ != nullptr && records_->Has(rank) && IsStalled(StateOf(rank));
}

ProcessName SpanEnd::ProcessOf(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  return {.pid = member.pid, .start_time = member.start_time};
}

std::string SpanEnd::Describe(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  std::string state;
  if (records_ != nullptr && records_->Has(rank)) {
    if (const ProcessState found = StateOf(rank); IsStalled(found)) {
      state = fmt::format(", process {}", ProcessStateText(found));
    }
  }
  return fmt::format("rank {} (host {}, pid {}{})", rank, member.host, member.pid, state);
}

int SpanEnd::HoldingUp(int rank) const {
  if (records_ == nullptr) return rank;
  std::vector<int> way;
  int at = rank;
  while (records_->Has(at)) {
    if (std::find(way.begin(), way.end(), at) != way.end()) return rank;
    const std::optional<SpanWait> wait = records_->WaitOf(at);
    if (!wait || wait->awaited < 0 || wait->awaited == at || IsHeld(StateOf(at))) return at;
    way.push_back(at);
    at = wait->awaited;
  }
  return at;
}

std::optional<FailureRecord> SpanEnd::Traced(const FailureRecord& record) const {
  const int named = RankOf(record.culprit);
  const bool to_be_traced = record.result == WEFT_TIMEOUT && record.traced < kTracesMax;
  if (records_ == nullptr || !to_be_traced || !records_->Has(named)) return std::nullopt;
  FailureRecord traced = record;
  const int holding_up = HoldingUp(named);
  const std::optional<SpanWait> wait = records_->WaitOf(holding_up);
  const bool circle = holding_up == named && wait && wait->awaited >= 0 && !IsHeld(StateOf(named));
  if (circle || holding_up == RankOf(record.finder)) return std::nullopt;
  traced.traced = records_->Has(holding_up) ? FailureRecord::kTracedToEnd : record.traced + 1;
  if (holding_up == named) {
    if (Stalls(named)) traced.sentence += StrCat("; ", Describe(named));
    return traced;
  }
  traced.culprit = members_[static_cast<size_t>(holding_up)].world_rank;
  traced.sentence =
      fmt::format("{}; that one waits itself, for {}", record.sentence, Describe(holding_up));
  return traced;
}

FailureRecord SpanEnd::RecordOf(weft_result_t result, int rank) const {
  return {.group_id = group_id_,
          .finder = inner_->world_rank(inner_->rank()),
          .culprit = rank < 0 ? -1 : members_[static_cast<size_t>(rank)].world_rank,
          .result = result};
}

std::optional<FailureRecord> SpanEnd::Found() const {
  const absl::Status found = inner_->error();
  if (found.ok()) return std::nullopt;
  const ErrorFields fields = weft::FieldsOf(found);
  FailureRecord record = RecordOf(ResultOf(found), RankOf(fields.world_rank));
  record.exit = {.signal = fields.signal, .exit_code = fields.exit_code};
  record.call = fields.sequence;
  record.operation = fields.operation.substr(0, kFailureOperationMax);
  record.sentence = FromAbsl(found.message());
  if (std::optional<FailureRecord> traced = Traced(record)) return traced;
  return record;
}

std::optional<FailureRecord> SpanEnd::Unreachable(const std::vector<int>& world_ranks) const {
  std::vector<int> ranks;
  for (const int world_rank : world_ranks) {
    if (const int rank = RankOf(world_rank); rank >= 0) ranks.push_back(rank);
  }
  if (ranks.empty()) return std::nullopt;
  FailureRecord record = RecordOf(WEFT_UNREACHABLE, ranks.front());
  std::string also;
  if (ranks.size() == 2) also = fmt::format(" and rank {}", ranks[1]);
  if (ranks.size() > 2) also = fmt::format(" and {} others on its node", ranks.size() - 1);
  record.sentence = fmt::format(
      "group {}: {}{} cannot be reached from rank {}'s node, directly or over others; whether they "
      "live is "
      "not known",
      name_, Describe(ranks.front()), also, RankOf(record.finder));
  return record;
}

std::optional<FailureRecord> SpanEnd::Dead(int world_rank, const ExitInfo& exit) const {
  const int rank = RankOf(world_rank);
  if (rank < 0) return std::nullopt;
  FailureRecord record = RecordOf(WEFT_PEER_LOST, rank);
  record.exit = exit;
  record.sentence = fmt::format("group {}: {} {}", name_, Describe(rank), exit.ToString());
  return record;
}

ErrorFields SpanEnd::FieldsOf(int rank) const {
  ErrorFields fields{.rank = rank, .group = name_};
  if (rank < 0) return fields;
  const GroupMember& culprit = members_[static_cast<size_t>(rank)];
  fields.pid = culprit.pid;
  fields.host = culprit.host;
  fields.world_rank = culprit.world_rank;
  return fields;
}

absl::Status SpanEnd::StatusOf(const FailureRecord& record) const {
  ErrorFields fields = FieldsOf(RankOf(record.culprit));
  fields.world_rank = record.culprit;
  fields.sequence = record.call;
  fields.operation = record.operation;
  fields.signal = record.exit.signal;
  fields.exit_code = record.exit.exit_code;
  return MakeError(record.result, fields, record.sentence);
}

}  // namespace weft
