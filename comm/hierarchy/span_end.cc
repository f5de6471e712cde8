#include "comm/hierarchy/span_end.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/refusal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

// No way leads over so many islands, but one of ranks that wait for others all the time.
constexpr uint8_t kTracesMax = 8;
// Ranks of a way that are named.
constexpr size_t kNamedMax = 6;

bool IsAmong(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

SpanEnd::SpanEnd(uint64_t group_id, std::string name, std::shared_ptr<ProcessGroup> inner,
                 std::vector<GroupMember> members, std::shared_ptr<const SpanRecords> records,
                 const AfarRanks* afar)
    : group_id_(group_id),
      name_(std::move(name)),
      inner_(std::move(inner)),
      members_(std::move(members)),
      records_(std::move(records)),
      afar_(afar) {}

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

// "" if it does not stall, as far as is known.
std::string SpanEnd::StallText(int rank) const {
  if (records_ != nullptr && records_->Has(rank)) {
    const ProcessState found = StateOf(rank);
    return IsStalled(found) ? fmt::format("process {}", ProcessStateText(found)) : "";
  }
  const bool stalled =
      afar_ != nullptr && afar_->IsStalled(members_[static_cast<size_t>(rank)].world_rank);
  return stalled ? "process does not answer though its machine does: stopped, or in a debugger"
                 : "";
}

bool SpanEnd::Stalls(int rank) const {
  return !StallText(rank).empty();
}

ProcessName SpanEnd::ProcessOf(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  return {.pid = member.pid, .start_time = member.start_time};
}

std::string SpanEnd::Describe(int rank) const {
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  const std::string stall = StallText(rank);
  return fmt::format("rank {} (host {}, pid {}{}{})", rank, member.host, member.pid,
                     stall.empty() ? "" : ", ", stall);
}

// "tcp:10.0.0.7:4711 (interface eth0, chosen automatically)".
std::string SpanEnd::AddressOf(int rank) const {
  if (rank < 0) return "not known";
  const GroupMember& member = members_[static_cast<size_t>(rank)];
  return fmt::format("{} ({})", member.agent, member.choice);
}

// As far as this island knows. What two ranks exchange leads nowhere, however long it takes.
SpanEnd::Way SpanEnd::Follow(int rank, const std::vector<int>& before, int finder) const {
  Way way{.ranks = {rank}};
  while (records_ != nullptr && records_->Has(way.ranks.back())) {
    const int at = way.ranks.back();
    const std::optional<SpanWait> wait = records_->WaitOf(at);
    if (!wait || wait->awaited < 0 || wait->awaited == at || IsHeld(StateOf(at))) break;
    const bool was_there = IsAmong(way.ranks, wait->awaited) || IsAmong(before, wait->awaited);
    way.moves = wait->met;
    if (was_there && !way.moves) way.again = wait->awaited;
    if (was_there || (way.moves && wait->awaited == finder)) break;
    way.ranks.push_back(wait->awaited);
    if (way.moves) break;
  }
  return way;
}

int SpanEnd::HoldingUp(int rank) const {
  const Way way = Follow(rank, {}, -1);
  return way.again >= 0 ? rank : way.ranks.back();
}

// "; that one waits itself, for rank 3, which waits for rank 1: they wait for each other"
std::string SpanEnd::WayText(const Way& way) const {
  const bool circle = way.again >= 0;
  if (way.ranks.size() == 1) {
    return Stalls(way.ranks[0]) ? StrCat("; ", Describe(way.ranks[0])) : "";
  }
  std::vector<std::string> names;
  for (size_t i = 1; i < way.ranks.size(); ++i)
    names.push_back(fmt::format("rank {}", way.ranks[i]));
  if (circle) {
    names.push_back(fmt::format("rank {}", way.again));
  } else {
    names.back() = Describe(way.ranks.back());
  }
  std::string rest;
  if (names.size() > kNamedMax) {
    rest = fmt::format(", and so on over {} ranks{}", way.ranks.size(),
                       circle ? "" : StrCat(" to ", names.back()));
    names.resize(kNamedMax - 1);
  }
  return fmt::format("; that one waits itself, for {}{}{}", fmt::join(names, ", which waits for "),
                     rest, circle ? ": they wait for each other" : "");
}

SpanEnd::LastWait SpanEnd::LastWaitFrom(int rank, int awaited) const {
  const Way way = Follow(awaited, {}, rank);
  if (way.again >= 0) return {rank, awaited};
  const size_t count = way.ranks.size();
  return {count == 1 ? rank : way.ranks[count - 2], way.ranks.back()};
}

std::string SpanEnd::SentenceOf(const LinkNote& note) const {
  const auto text = [&](int rank) {
    return fmt::format("rank {} (host {})", rank, members_[static_cast<size_t>(rank)].host);
  };
  return note.Sentence(text(RankOf(note.rank)), text(RankOf(note.peer)));
}

std::string SpanEnd::LinkText(const LastWait& last) const {
  if (afar_ == nullptr || records_ == nullptr || !records_->Has(last.waiting) ||
      last.holding_up < 0)
    return "";
  const std::optional<SpanWait> wait = records_->WaitOf(last.waiting);
  const bool met = wait && wait->met && wait->awaited == last.holding_up;
  std::string slow;
  for (const LinkNote& note : afar_->Links()) {
    if (RankOf(note.rank) != last.waiting || RankOf(note.peer) != last.holding_up) continue;
    if (note.stalled) return SentenceOf(note);
    if (met && slow.empty()) slow = SentenceOf(note);
  }
  return slow;
}

// Nothing passes on a link between two ranks of the group: whoever waits then waits for that. A slow one is the cause for who waits for its other end.
std::optional<FailureRecord> SpanEnd::LinkCause(const FailureRecord& record,
                                                const LastWait& last) const {
  if (afar_ == nullptr) return std::nullopt;
  std::string sentence;
  for (const LinkNote& note : afar_->Links()) {
    const bool inside = RankOf(note.rank) >= 0 && RankOf(note.peer) >= 0;
    if (inside && note.stalled && sentence.empty()) sentence = SentenceOf(note);
  }
  // Of a rank that was stopped a moment ago the link still shows a rate.
  const bool stopped = last.holding_up >= 0 && Stalls(last.holding_up);
  if (sentence.empty() && !stopped) sentence = LinkText(last);
  if (sentence.empty()) return std::nullopt;
  FailureRecord cause = record;
  cause.culprit = -1;
  cause.way.clear();
  cause.found_bytes = 0;
  cause.traced = FailureRecord::kTracedToLink;
  cause.sentence = fmt::format("{}{} on group {}: {}", record.operation,
                               record.call >= 0 ? StrCat(" #", record.call) : "", name_, sentence);
  return cause;
}

// A rank of this island has refused a call: why stands in memory of the island.
std::optional<FailureRecord> SpanEnd::Refused(const FailureRecord& record) const {
  const int rank = RankOf(record.culprit);
  if (record.traced != 0 || record.call < 0 || records_ == nullptr || !records_->Has(rank))
    return std::nullopt;
  const std::optional<RecordedCall> call =
      records_->CallOf(rank, static_cast<uint64_t>(record.call));
  const NoticeBoard* const board = inner_->notices();
  if (!call || !IsRefusal(call->purpose) || board == nullptr) return std::nullopt;
  int place = 0;  // of the rank on the island
  while (place < inner_->size() && inner_->world_rank(place) != record.culprit)
    ++place;
  if (place == inner_->size()) return std::nullopt;
  const auto read = [&](int notice_place, WaitNotice* notice) {
    return board->Read(place, notice_place, notice);
  };
  const std::string why = RefusalText(rank, call->purpose, read);
  if (why.empty()) return std::nullopt;
  FailureRecord traced = record;
  traced.traced = FailureRecord::kTracedToEnd;
  traced.sentence += why;
  return traced;
}

std::optional<FailureRecord> SpanEnd::Traced(const FailureRecord& record) const {
  const int named = RankOf(record.culprit);
  if (record.result == WEFT_MISMATCH) return Refused(record);
  if (record.result != WEFT_TIMEOUT || record.traced == FailureRecord::kTracedToLink)
    return std::nullopt;
  const LastWait last = LastWaitFrom(RankOf(record.finder), named);
  if (std::optional<FailureRecord> link = LinkCause(record, last)) return link;
  const bool to_be_traced = record.traced < kTracesMax;
  if (records_ == nullptr || !to_be_traced || !records_->Has(named)) return std::nullopt;
  std::vector<int> before;
  for (const int32_t world_rank : record.way)
    before.push_back(RankOf(world_rank));
  if (!before.empty()) before.pop_back();  // the one that is named
  Way way = Follow(named, before, RankOf(record.finder));
  way.ranks.insert(way.ranks.begin(), before.begin(), before.end());
  if (way.ranks.size() > kFailureWayMax || IsAmong(way.ranks, -1)) return std::nullopt;
  FailureRecord traced = record;
  traced.way.clear();
  for (const int rank : way.ranks)
    traced.way.push_back(members_[static_cast<size_t>(rank)].world_rank);
  if (way.again >= 0) {
    traced.traced = FailureRecord::kTracedInCircle;
    traced.culprit = traced.way.front();
  } else {
    // An island that stands still says nothing.
    const bool ends_here = way.moves || records_->Has(way.ranks.back()) || Stalls(way.ranks.back());
    traced.traced = ends_here ? FailureRecord::kTracedToEnd : record.traced + 1;
    traced.culprit = traced.way.back();
  }
  const size_t found = record.found_bytes > 0 ? record.found_bytes : record.sentence.size();
  traced.found_bytes = static_cast<uint16_t>(found);
  traced.sentence = record.sentence.substr(0, found) + WayText(way);
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
  record.culprit =
      fields.world_rank;  // also of one that has ended the parent, and is not in the part
  record.exit = {.signal = fields.signal, .exit_code = fields.exit_code};
  record.call = fields.sequence;
  record.operation = fields.operation.substr(0, kFailureOperationMax);
  record.sentence = FromAbsl(found.message());
  if (std::optional<FailureRecord> traced = Traced(record)) return traced;
  const int culprit = RankOf(record.culprit);
  // A rank of this island that has left said itself what it had refused, and why: nobody else knows better.
  if (record.result == WEFT_MISMATCH && record.call < 0 && records_ != nullptr &&
      records_->Has(culprit))
    record.traced = FailureRecord::kTracedToEnd;
  if (record.result == WEFT_TIMEOUT && culprit >= 0 && Stalls(culprit)) {
    record.traced = FailureRecord::kTracedToEnd;
    record.sentence += StrCat("; ", Describe(culprit));
  }
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
  const int finder = RankOf(record.finder);
  record.sentence = fmt::format(
      "group {}: {}{} cannot be reached from rank {}'s node, directly or over others; whether they "
      "live is not known. Their address is {}, that of rank {} {}",
      name_, Describe(ranks.front()), also, finder, AddressOf(ranks.front()), finder,
      AddressOf(finder));
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
