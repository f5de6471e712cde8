#include "comm/hierarchy/span_end.h"

#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {

SpanEnd::SpanEnd(uint64_t group_id, std::string name, std::shared_ptr<ProcessGroup> inner,
                 std::vector<GroupMember> members)
    : group_id_(group_id),
      name_(std::move(name)),
      inner_(std::move(inner)),
      members_(std::move(members)) {}

int SpanEnd::RankOf(int world_rank) const {
  for (const GroupMember& member : members_) {
    if (world_rank >= 0 && member.world_rank == world_rank) return member.rank;
  }
  return -1;
}

std::string SpanEnd::Describe(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, member.host, member.pid);
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
