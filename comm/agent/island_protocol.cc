#include "comm/agent/island_protocol.h"

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr uint32_t kResultMax = 127;

absl::Status MalformedFrame(std::string_view what) {
  return MakeError(WEFT_CORRUPT, StrCat("an island sent a malformed ", what,
                                        "; do all ranks run the same weft?"));
}

void WriteExit(const ExitInfo& exit, WireWriter* writer) {
  writer->I32(exit.signal);
  writer->I32(exit.exit_code);
}

ExitInfo ReadExit(WireReader* reader) {
  ExitInfo exit;
  exit.signal = reader->I32();
  exit.exit_code = reader->I32();
  return exit;
}

void WriteList(const std::vector<int32_t>& list, size_t list_max, WireWriter* writer) {
  WEFT_CHECK(list.size() <= list_max);
  writer->U16(static_cast<uint16_t>(list.size()));
  for (const int32_t number : list)
    writer->I32(number);
}

// False if there are more than `list_max`, or not as many as it says.
bool ReadList(WireReader* reader, size_t list_max, std::vector<int32_t>* list) {
  const size_t count = reader->U16();
  if (!reader->ok() || count > list_max || reader->left() < count * 4) return false;
  list->reserve(count);
  for (size_t i = 0; i < count; ++i)
    list->push_back(reader->I32());
  return true;
}

}  // namespace

bool FailureRecord::operator==(const FailureRecord& other) const {
  return group_id == other.group_id && finder == other.finder && culprit == other.culprit &&
         result == other.result && origin == other.origin && sequence == other.sequence &&
         call == other.call && operation == other.operation && traced == other.traced &&
         way == other.way && found_bytes == other.found_bytes && sentence == other.sentence;
}

std::string EncodeWho(const IslandWho& who) {
  WireWriter writer;
  writer.I32(who.island);
  writer.I32(who.pid);
  writer.U64(who.start_time);
  writer.U32(who.epoch);
  writer.U64(who.term);
  return writer.Take();
}

absl::StatusOr<IslandWho> DecodeWho(std::string_view body) {
  WireReader reader(body);
  IslandWho who;
  who.island = reader.I32();
  who.pid = reader.I32();
  who.start_time = reader.U64();
  who.epoch = reader.U32();
  who.term = reader.U64();
  if (!reader.Finished()) return MalformedFrame("greeting");
  return who;
}

std::string EncodeMembers(const IslandMembers& members) {
  WireWriter writer;
  writer.U32(members.epoch);
  members.ranks.Write(&writer);
  return writer.Take();
}

absl::StatusOr<IslandMembers> DecodeMembers(std::string_view body, int rank_count) {
  WireReader reader(body);
  IslandMembers members;
  members.epoch = reader.U32();
  members.ranks = IslandNumberSet::Read(&reader, rank_count);
  if (!reader.Finished()) return MalformedFrame("membership");
  return members;
}

std::string EncodeAsk(const IslandAsk& ask) {
  WireWriter writer;
  writer.I32(ask.asker);
  writer.I32(ask.via);
  writer.I32(ask.target);
  writer.I32(ask.pid);
  writer.U64(ask.start_time);
  writer.U64(ask.number);
  return writer.Take();
}

absl::StatusOr<IslandAsk> DecodeAsk(std::string_view body) {
  WireReader reader(body);
  IslandAsk ask;
  ask.asker = reader.I32();
  ask.via = reader.I32();
  ask.target = reader.I32();
  ask.pid = reader.I32();
  ask.start_time = reader.U64();
  ask.number = reader.U64();
  if (!reader.Finished()) return MalformedFrame("question");
  return ask;
}

std::string EncodeAnswer(const IslandAnswer& answer) {
  WireWriter writer;
  writer.I32(answer.asker);
  writer.I32(answer.via);
  writer.I32(answer.target);
  writer.U64(answer.number);
  writer.U8(answer.ended ? 1 : 0);
  WriteExit(answer.exit, &writer);
  return writer.Take();
}

absl::StatusOr<IslandAnswer> DecodeAnswer(std::string_view body) {
  WireReader reader(body);
  IslandAnswer answer;
  answer.asker = reader.I32();
  answer.via = reader.I32();
  answer.target = reader.I32();
  answer.number = reader.U64();
  answer.ended = reader.U8() != 0;
  answer.exit = ReadExit(&reader);
  if (!reader.Finished()) return MalformedFrame("answer");
  return answer;
}

std::string EncodeDeaths(const std::vector<RankDeath>& deaths) {
  WEFT_CHECK(deaths.size() <= kIslandDeathsMax);
  WireWriter writer;
  writer.U16(static_cast<uint16_t>(deaths.size()));
  for (const RankDeath& death : deaths) {
    writer.I32(death.world_rank);
    WriteExit(death.exit, &writer);
    writer.U64(death.promised);
    writer.U8(death.accepted ? 1 : 0);
    writer.U8(death.left ? 1 : 0);
  }
  return writer.Take();
}

absl::StatusOr<std::vector<RankDeath>> DecodeDeaths(std::string_view body) {
  WireReader reader(body);
  const size_t count = reader.U16();
  if (count > kIslandDeathsMax) return MalformedFrame("list of deaths");
  std::vector<RankDeath> deaths(count);
  for (RankDeath& death : deaths) {
    death.world_rank = reader.I32();
    death.exit = ReadExit(&reader);
    death.promised = reader.U64();
    death.accepted = reader.U8() != 0;
    death.left = reader.U8() != 0;
  }
  if (!reader.Finished()) return MalformedFrame("list of deaths");
  return deaths;
}

std::string EncodeReach(const std::vector<ReachReport>& reports) {
  WEFT_CHECK(reports.size() <= kIslandReportsMax);
  WireWriter writer;
  writer.U16(static_cast<uint16_t>(reports.size()));
  for (const ReachReport& report : reports) {
    writer.I32(report.island);
    writer.U64(report.number);
    WriteList(report.lost, kIslandPeersMax, &writer);
    WriteList(report.extra, kIslandPeersMax, &writer);
    WriteList(report.stalled, kIslandPeersMax, &writer);
  }
  return writer.Take();
}

absl::StatusOr<std::vector<ReachReport>> DecodeReach(std::string_view body) {
  WireReader reader(body);
  const size_t count = reader.U16();
  if (count > kIslandReportsMax) return MalformedFrame("report of connections");
  std::vector<ReachReport> reports(count);
  for (ReachReport& report : reports) {
    report.island = reader.I32();
    report.number = reader.U64();
    if (!ReadList(&reader, kIslandPeersMax, &report.lost) ||
        !ReadList(&reader, kIslandPeersMax, &report.extra) ||
        !ReadList(&reader, kIslandPeersMax, &report.stalled)) {
      return MalformedFrame("report of connections");
    }
  }
  if (!reader.Finished()) return MalformedFrame("report of connections");
  return reports;
}

std::string EncodeVerdictOf(const GroupVerdict& verdict) {
  const FailureRecord& record = verdict.record;
  WireWriter writer;
  writer.U64(record.group_id);
  writer.I32(record.finder);
  writer.I32(record.culprit);
  writer.I32(record.result);
  WriteExit(record.exit, &writer);
  writer.I32(record.origin);
  writer.U64(record.sequence);
  writer.U64(static_cast<uint64_t>(record.call));
  writer.Text(std::string_view(record.operation).substr(0, kFailureOperationMax));
  writer.U8(record.traced);
  WriteList(record.way, kFailureWayMax, &writer);
  writer.U16(record.found_bytes);
  writer.Text(std::string_view(record.sentence).substr(0, kFailureSentenceMax));
  verdict.excluded.Write(&writer);
  verdict.closed.Write(&writer);
  writer.U8(verdict.settled ? 1 : 0);
  return writer.Take();
}

absl::StatusOr<GroupVerdict> DecodeVerdictOf(std::string_view body, int island_count) {
  WireReader reader(body);
  GroupVerdict verdict;
  FailureRecord& record = verdict.record;
  record.group_id = reader.U64();
  record.finder = reader.I32();
  record.culprit = reader.I32();
  const uint32_t result = reader.U32();
  // What the enum can hold; which of its numbers it is, is for those who read it.
  if (result == 0 || result > kResultMax) return MalformedFrame("failure record");
  record.result = static_cast<weft_result_t>(result);
  record.exit = ReadExit(&reader);
  record.origin = reader.I32();
  record.sequence = reader.U64();
  record.call = static_cast<int64_t>(reader.U64());
  record.operation = std::string(reader.Text(kFailureOperationMax));
  record.traced = reader.U8();
  if (!ReadList(&reader, kFailureWayMax, &record.way)) return MalformedFrame("failure record");
  record.found_bytes = reader.U16();
  record.sentence = std::string(reader.Text(kFailureSentenceMax));
  verdict.excluded = IslandNumberSet::Read(&reader, island_count);
  verdict.closed = IslandNumberSet::Read(&reader, island_count);
  verdict.settled = reader.U8() != 0;
  if (!reader.Finished()) return MalformedFrame("failure record");
  return verdict;
}

std::string EncodeRanks(const IslandNumberSet& ranks) {
  WireWriter writer;
  ranks.Write(&writer);
  return writer.Take();
}

absl::StatusOr<IslandNumberSet> DecodeRanks(std::string_view body, int rank_count) {
  WireReader reader(body);
  IslandNumberSet ranks = IslandNumberSet::Read(&reader, rank_count);
  if (!reader.Finished()) return MalformedFrame("set of ranks");
  return ranks;
}

std::string EncodeBallot(uint64_t ballot) {
  WireWriter writer;
  writer.U64(ballot);
  return writer.Take();
}

absl::StatusOr<uint64_t> DecodeBallot(std::string_view body) {
  WireReader reader(body);
  const uint64_t ballot = reader.U64();
  if (!reader.Finished()) return MalformedFrame("ballot");
  return ballot;
}

std::string EncodePromise(const AgreementPromise& promise) {
  WireWriter writer;
  writer.U64(promise.ballot);
  writer.I32(promise.island);
  WriteList(promise.dead, kIslandDeathsMax, &writer);
  writer.U64(promise.accepted);
  promise.accepted_ranks.Write(&writer);
  return writer.Take();
}

absl::StatusOr<AgreementPromise> DecodePromise(std::string_view body, int rank_count) {
  WireReader reader(body);
  AgreementPromise promise;
  promise.ballot = reader.U64();
  promise.island = reader.I32();
  if (!ReadList(&reader, kIslandDeathsMax, &promise.dead)) return MalformedFrame("promise");
  promise.accepted = reader.U64();
  promise.accepted_ranks = IslandNumberSet::Read(&reader, rank_count);
  if (!reader.Finished()) return MalformedFrame("promise");
  return promise;
}

std::string EncodeProposal(const AgreementProposal& proposal) {
  WireWriter writer;
  writer.U64(proposal.ballot);
  proposal.ranks.Write(&writer);
  proposal.dead.Write(&writer);
  return writer.Take();
}

absl::StatusOr<AgreementProposal> DecodeProposal(std::string_view body, int rank_count) {
  WireReader reader(body);
  AgreementProposal proposal;
  proposal.ballot = reader.U64();
  proposal.ranks = IslandNumberSet::Read(&reader, rank_count);
  proposal.dead = IslandNumberSet::Read(&reader, rank_count);
  if (!reader.Finished()) return MalformedFrame("proposal");
  return proposal;
}

std::string EncodeReply(const AgreementReply& reply) {
  WireWriter writer;
  writer.U64(reply.ballot);
  writer.I32(reply.island);
  writer.U64(reply.promised);
  return writer.Take();
}

absl::StatusOr<AgreementReply> DecodeReply(std::string_view body) {
  WireReader reader(body);
  AgreementReply reply;
  reply.ballot = reader.U64();
  reply.island = reader.I32();
  reply.promised = reader.U64();
  if (!reader.Finished()) return MalformedFrame("reply");
  return reply;
}

}  // namespace weft
