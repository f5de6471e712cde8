// One rank judges and the others repeat its sentence: ranks that judged for themselves, each at its own moment, would name
// different culprits. So a failure is published like a success, and only a rank that gets no verdict looks for itself (kLook).
// When a rank dies, the verdict is asked for once more (kLast): one that is there already goes before the death.
#include "comm/rendezvous/membership_exchange.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr size_t kHostBytesMax = 256;
constexpr size_t kSentenceBytesMax = 4096;
constexpr int64_t kPast = std::numeric_limits<int64_t>::min();

std::string Cut(const std::string& text, size_t bytes_max) {
  return text.substr(0, bytes_max);
}

std::string KeyOf(std::string_view group, std::string_view what, int number) {
  return StrCat("weft/group/", group, "/", what, "/", number);
}

int PartCount(int size) {
  return (size + MembershipExchange::kMembersPerPart - 1) / MembershipExchange::kMembersPerPart;
}

std::string Describe(const GroupMember& member) {
  return StrCat("pid ", member.pid, " on ", member.host.empty() ? "unknown host" : member.host);
}

}  // namespace

MembershipExchange::MembershipExchange(const Seams& seams, std::string_view group_name, int rank,
                                       int size, const GroupMember& self, int64_t deadline_ns)
    : seams_(seams),
      group_(group_name),
      rank_(rank),
      size_(size),
      self_(self),
      start_ns_(seams.clock->NowNs()),
      deadline_ns_(deadline_ns),
      verdict_deadline_ns_(Later(deadline_ns, kVerdictGraceNs)),
      looked_(rank, size),
      roll_call_(rank, size),
      notices_(start_ns_),
      result_(absl::UnknownError("not finished")) {
  if (size < 1 || size > kWorldSizeMax || rank < 0 || rank >= size) {
    Finish(MakeError(WEFT_INVALID_ARGUMENT, StrCat("group ", group_, ": rank ", rank, " of ", size,
                                                   " is not possible; sizes are 1 to ",
                                                   kWorldSizeMax, " and ranks 0 to size - 1")));
  }
  members_.members.resize(finished() ? 0 : static_cast<size_t>(size));
  for (int other = 1; other < size && rank == 0 && !finished(); ++other)
    unread_.push_back(other);
}

std::string MembershipExchange::Key(std::string_view what, int number) const {
  return KeyOf(group_, what, number);
}

std::vector<std::string> MembershipExchange::KeysWrittenBy(std::string_view group_name, int rank,
                                                           int size) {
  std::vector<std::string> keys;
  for (int part = 0; part < PartCount(size) && rank == 0; ++part)
    keys.push_back(KeyOf(group_name, "verdict", part));
  keys.push_back(KeyOf(group_name, "line", rank));
  keys.push_back(KeyOf(group_name, "claims", rank));
  return keys;
}

StoreRequest MembershipExchange::Wait(std::string_view what, int number,
                                      int64_t deadline_ns) const {
  return {.kind = StoreRequest::Kind::kWait, .key = Key(what, number), .deadline_ns = deadline_ns};
}

// Until the deadline or for a slice, whichever is shorter.
StoreRequest MembershipExchange::WaitASlice(std::string_view what, int number,
                                            int64_t deadline_ns) const {
  return Wait(what, number, std::min(deadline_ns, Later(seams_.clock->NowNs(), kSliceNs)));
}

std::optional<StoreRequest> MembershipExchange::Next() {
  switch (phase_) {
    case Phase::kClaim:
      return StoreRequest{.kind = StoreRequest::Kind::kAdd,
                          .key = Key("claims", rank_),
                          .delta = 1,
                          .deadline_ns = deadline_ns_};
    case Phase::kRival:
      return Wait("line", rank_, seams_.clock->NowNs() + kRivalNs);
    case Phase::kLine:
      return StoreRequest{.kind = StoreRequest::Kind::kSet,
                          .key = Key("line", rank_),
                          .value = EncodeLine(),
                          .deadline_ns = deadline_ns_};
    case Phase::kCollect:
      return WaitASlice("line", unread_.front(), deadline_ns_);
    case Phase::kScan:
      return Wait("line", scan_.back(), kPast);
    case Phase::kPublish:
      return StoreRequest{.kind = StoreRequest::Kind::kSet,
                          .key = Key("verdict", next_),
                          .value = parts_[static_cast<size_t>(next_)],
                          .deadline_ns = deadline_ns_};
    case Phase::kLeader:
      return WaitASlice("line", 0, verdict_deadline_ns_);
    case Phase::kVerdict:
      return WaitASlice("verdict", next_, verdict_deadline_ns_);
    case Phase::kLast:
      return Wait("verdict", next_, kPast);
    case Phase::kLeave:
      return StoreRequest{.kind = StoreRequest::Kind::kSet,
                          .key = Key("left", 0),
                          .value = EncodeFailure(lost_),
                          .deadline_ns = Later(seams_.clock->NowNs(), kVerdictGraceNs)};
    case Phase::kLeft:
      return Wait("left", 0, kPast);
    case Phase::kLook:
      return Wait("line", looked_.next(), kPast);
    case Phase::kRollCall:
      return Wait("line", roll_call_.next(), kPast);
    case Phase::kFinished:
      break;
  }
  return std::nullopt;
}

void MembershipExchange::Take(const StoreReply& reply) {
  const bool timeout = ResultOf(reply.status) == WEFT_TIMEOUT;
  const bool writes =
      phase_ == Phase::kClaim || phase_ == Phase::kLine || phase_ == Phase::kPublish;
  if (!reply.status.ok() && phase_ == Phase::kLast && leaves_) {
    phase_ = Phase::kLeave;
    return;
  }
  if ((!reply.status.ok() && phase_ == Phase::kLast) || phase_ == Phase::kLeave) {
    Finish(lost_);
    return;
  }
  if (!reply.status.ok() && (!timeout || writes)) {
    // Rank 0 may still owe the others a verdict, but its store is of no use any more.
    Finish(Annotate(reply.status, StrCat("group ", group_, ", rank ", rank_, ": ")));
    return;
  }
  switch (phase_) {
    case Phase::kClaim:
      phase_ = reply.number > 1 ? Phase::kRival : Phase::kLine;
      break;
    case Phase::kRival:
      Finish(Rival(reply));
      break;
    case Phase::kLine:
      members_.members[static_cast<size_t>(rank_)] = self_;
      members_.members[static_cast<size_t>(rank_)].rank = rank_;
      phase_ = rank_ == 0 ? Phase::kCollect : Phase::kLeader;
      if (rank_ == 0 && size_ == 1) Conclude();
      break;
    case Phase::kCollect:
      TakeCollected(reply);
      break;
    case Phase::kScan:
      TakeScanned(reply);
      break;
    case Phase::kLeft:
      TakeLeft(reply);
      break;
    case Phase::kLeader:
      TakeLeader(reply);
      break;
    case Phase::kPublish:
      if (++next_ < static_cast<int>(parts_.size())) break;
      failure_.ok() ? Finish(members_) : Finish(failure_);
      break;
    case Phase::kVerdict:
    case Phase::kLast:
      TakeVerdict(reply);
      break;
    case Phase::kLook:
      TakeLook(reply);
      break;
    case Phase::kRollCall:
      TakeRollCall(reply);
      break;
    case Phase::kLeave:
    case Phase::kFinished:
      WEFT_CHECK(false);
  }
  NoteLongWait();
}

// --- Lines ---------------------------------------------------------------------------------------

std::string MembershipExchange::EncodeLine() const {
  WireWriter writer;
  writer.U16(kMembershipVersion);
  writer.I32(rank_);
  writer.I32(size_);
  WriteMember(self_, writer);
  return writer.Take();
}

// Checks the version at the beginning of what `rank` wrote.
absl::Status MembershipExchange::CheckVersion(WireReader& reader, int rank) const {
  const uint16_t version = reader.U16();
  if (!reader.ok() || version == kMembershipVersion) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.rank = rank, .group = group_},
                   StrCat("group ", group_, ": rank ", rank, " speaks version ", version,
                          " of weft's membership, rank ", rank_, " version ", kMembershipVersion,
                          "; use the same weft on every rank"));
}

absl::StatusOr<GroupMember> MembershipExchange::DecodeLine(std::string_view line, int rank) const {
  WireReader reader(line);
  WEFT_RETURN_IF_ERROR(CheckVersion(reader, rank));
  GroupMember member;
  member.rank = reader.I32();
  const int32_t size = reader.I32();
  ReadMember(reader, member);
  if (!reader.Finished() || member.rank != rank) {
    return MakeError(WEFT_CORRUPT, {.rank = rank, .group = group_},
                     StrCat("group ", group_, ": what rank ", rank,
                            " wrote about itself is malformed; is the store used for something "
                            "else too?"));
  }
  if (size != size_) {
    return MakeError(WEFT_MISMATCH,
                     {.rank = rank, .pid = member.pid, .host = member.host, .group = group_},
                     StrCat("group ", group_, ": rank ", rank, " (", Describe(member),
                            ") was started for ", size, " ranks, rank ", rank_, " (",
                            Describe(self_), ") for ", size_, "; give every rank the same size"));
  }
  return member;
}

// Somebody claimed our rank before us.
absl::Status MembershipExchange::Rival(const StoreReply& reply) const {
  std::string first = "another process";
  ErrorFields fields{.rank = rank_, .group = group_};
  if (reply.status.ok()) {
    const absl::StatusOr<GroupMember> rival = DecodeLine(reply.value, rank_);
    if (!rival.ok()) return rival.status();
    if (rival->pid == self_.pid && rival->start_time == self_.start_time &&
        rival->host == self_.host) {
      return MakeError(WEFT_INVALID_USAGE, fields,
                       StrCat("group ", group_, ": rank ", rank_, " (", Describe(self_),
                              ") has joined already; give each group made through one store its "
                              "own name and each thread its own rank"));
    }
    first = Describe(*rival);
    fields.pid = rival->pid;
    fields.host = rival->host;
  }
  return MakeError(
      WEFT_INVALID_USAGE, fields,
      StrCat("group ", group_, ": rank ", rank_, " is taken by ", first, "; ", Describe(self_),
             " was started with the same rank; give every process "
             "its own"));
}

// --- Rank 0 --------------------------------------------------------------------------------------

void MembershipExchange::TakeCollected(const StoreReply& reply) {
  if (reply.status.ok()) {
    TakeLine(reply, unread_.front());
  } else {
    phase_ = Phase::kLeft;
  }
}

void MembershipExchange::TakeLeft(const StoreReply& reply) {
  if (!reply.status.ok()) {
    unread_.empty() ? Conclude() : BeginScan();
    return;
  }
  WireReader reader(reply.value);
  absl::Status failure = CheckVersion(reader, rank_);
  if (failure.ok() && reader.U8() != 0) reader.Fail();
  if (failure.ok()) failure = DecodeFailure(reader, rank_);
  PrepareFailure(std::move(failure));
}

// The line of `rank` has come.
void MembershipExchange::TakeLine(const StoreReply& reply, int rank) {
  absl::StatusOr<GroupMember> member = DecodeLine(reply.value, rank);
  if (!member.ok()) {
    PrepareFailure(member.status());
    return;
  }
  known_.push_back(*member);
  members_.members[static_cast<size_t>(rank)] = *std::move(member);
  unread_.erase(std::lower_bound(unread_.begin(), unread_.end(), rank));
  if (unread_.empty()) phase_ = Phase::kLeft;
}

// The first one makes the others wait: looks for these, some at a time, but for all at the deadline.
void MembershipExchange::BeginScan() {
  const bool last = seams_.clock->NowNs() >= deadline_ns_;
  const size_t count = last ? unread_.size() : std::min(unread_.size(), kScanMax);
  auto from = std::upper_bound(unread_.begin(), unread_.end(), scanned_);
  scan_.clear();
  for (size_t i = 0; i < count; ++i) {
    if (from == unread_.end()) from = unread_.begin();
    scan_.push_back(*from++);
  }
  scanned_ = scan_.back();
  std::reverse(scan_.begin(), scan_.end());
  phase_ = Phase::kScan;
}

void MembershipExchange::TakeScanned(const StoreReply& reply) {
  const int rank = scan_.back();
  scan_.pop_back();
  if (reply.status.ok()) TakeLine(reply, rank);
  if (phase_ != Phase::kScan || !scan_.empty()) return;
  phase_ = Phase::kCollect;
  if (seams_.clock->NowNs() >= deadline_ns_) {
    Conclude();
  }
}

void MembershipExchange::Lose(absl::Status lost) {
  // The last to come may have ended, too: nothing is published yet.
  const bool about_to_publish = phase_ == Phase::kPublish && next_ == 0 && failure_.ok();
  if (phase_ == Phase::kCollect || phase_ == Phase::kScan || phase_ == Phase::kLeft ||
      about_to_publish) {
    parts_.clear();
    PrepareFailure(std::move(lost));
  } else if (phase_ == Phase::kLeader || phase_ == Phase::kVerdict || phase_ == Phase::kLook ||
             phase_ == Phase::kRollCall) {
    if (phase_ == Phase::kLook) next_ = 0;
    lost_ = std::move(lost);
    phase_ = Phase::kLast;
  }
}

void MembershipExchange::GiveUp(absl::Status reason) {
  if (phase_ != Phase::kLast && phase_ != Phase::kLeave) leaves_ = rank_ != 0;
  Lose(std::move(reason));
}

// All lines are in, or the deadline has passed.
void MembershipExchange::Conclude() {
  absl::Status verdict = unread_.empty()
                             ? seams_.random->Fill(&members_.group_id, sizeof(members_.group_id))
                             : Missing(unread_, false);
  verdict.ok() ? PrepareParts() : PrepareFailure(std::move(verdict));
}

void MembershipExchange::PrepareParts() {
  for (int part = 0; part < PartCount(size_); ++part) {
    WireWriter writer;
    writer.U16(kMembershipVersion);
    writer.U8(1);  // a good verdict
    writer.U64(members_.group_id);
    writer.I32(size_);
    const int end = std::min(size_, (part + 1) * kMembersPerPart);
    for (int rank = part * kMembersPerPart; rank < end; ++rank)
      WriteMember(members_.members[static_cast<size_t>(rank)], writer);
    parts_.push_back(writer.Take());
  }
  next_ = 0;
  phase_ = Phase::kPublish;
}

void MembershipExchange::PrepareFailure(absl::Status failure) {
  failure_ = std::move(failure);
  parts_.push_back(EncodeFailure(failure_));
  next_ = 0;
  phase_ = Phase::kPublish;
}

std::string MembershipExchange::EncodeFailure(const absl::Status& failure) const {
  const ErrorFields fields = FieldsOf(failure);
  WireWriter writer;
  writer.U16(kMembershipVersion);
  writer.U8(0);  // a bad verdict
  writer.I32(static_cast<int32_t>(ResultOf(failure)));
  writer.I32(fields.rank);
  writer.I32(fields.pid);
  writer.I32(fields.signal);
  writer.I32(fields.exit_code);
  writer.Text(Cut(fields.host, kHostBytesMax));
  writer.Text(FromAbsl(failure.message()).substr(0, kSentenceBytesMax));
  return writer.Take();
}

// What EncodeFailure has written, behind the first two fields.
absl::Status MembershipExchange::DecodeFailure(WireReader& reader, int writer) const {
  const auto result = static_cast<weft_result_t>(reader.I32());
  ErrorFields fields{.group = group_};
  fields.rank = reader.I32();
  fields.pid = reader.I32();
  fields.signal = reader.I32();
  fields.exit_code = reader.I32();
  fields.host = std::string(reader.Text(kHostBytesMax));
  const std::string_view sentence = reader.Text(kSentenceBytesMax);
  if (reader.Finished() && result != WEFT_SUCCESS) return MakeError(result, fields, sentence);
  return MakeError(
      WEFT_CORRUPT, {.rank = writer, .group = group_},
      StrCat("group ", group_, ": rank ", writer, "'s verdict on the members is malformed"));
}

// --- The others ----------------------------------------------------------------------------------

// Rank 0 says itself what is wrong with its line.
void MembershipExchange::TakeLeader(const StoreReply& reply) {
  if (!reply.status.ok() && seams_.clock->NowNs() < verdict_deadline_ns_) return;
  if (reply.status.ok()) {
    if (const absl::StatusOr<GroupMember> leader = DecodeLine(reply.value, 0); leader.ok()) {
      known_.push_back(*leader);
    }
  }
  phase_ = reply.status.ok() ? Phase::kVerdict : Phase::kLook;
}

void MembershipExchange::TakeVerdict(const StoreReply& reply) {
  if (!reply.status.ok()) {
    if (seams_.clock->NowNs() >= verdict_deadline_ns_) phase_ = Phase::kLook;
    return;
  }
  const absl::StatusOr<int> end = DecodePart(reply.value);
  if (!end.ok()) {
    Finish(end.status());
  } else if (*end == size_) {
    Finish(members_);
  } else {
    ++next_;
  }
}

// Returns the first rank that the part does not hold, or the verdict's error.
absl::StatusOr<int> MembershipExchange::DecodePart(std::string_view part) {
  absl::Status malformed =
      MakeError(WEFT_CORRUPT, {.rank = 0, .group = group_},
                StrCat("group ", group_, ": rank 0's verdict on the members is malformed"));
  WireReader reader(part);
  WEFT_RETURN_IF_ERROR(CheckVersion(reader, 0));
  if (reader.U8() == 0) return DecodeFailure(reader, 0);
  members_.group_id = reader.U64();
  const int32_t size = reader.I32();
  if (reader.ok() && size != size_) {
    return MakeError(
        WEFT_MISMATCH, {.rank = 0, .group = group_},
        StrCat("group ", group_, ": rank ", rank_, " (", Describe(self_), ") was started for ",
               size_, " ranks, rank 0 for ", size, "; give every rank the same size"));
  }
  const int end = std::min(size_, (next_ + 1) * kMembersPerPart);
  for (int rank = next_ * kMembersPerPart; rank < end; ++rank) {
    GroupMember& member = members_.members[static_cast<size_t>(rank)];
    member.rank = rank;
    ReadMember(reader, member);
  }
  if (!reader.Finished()) return malformed;
  return end;
}

void MembershipExchange::TakeLook(const StoreReply& reply) {
  looked_.Take(reply.status.ok());
  if (!looked_.done()) return;
  if (!looked_.missing().empty()) {
    Finish(Missing(looked_.missing(), looked_.more()));
    return;
  }
  Finish(MakeError(WEFT_TIMEOUT, {.rank = 0, .group = group_},
                   StrCat("group ", group_, ": all ", size_,
                          " ranks came, but rank 0 did not "
                          "confirm them before the deadline; it is stopped, overloaded or gone")));
}

// --- Ends ----------------------------------------------------------------------------------------

absl::Status MembershipExchange::Missing(const std::vector<int>& missing, bool more) const {
  const double seconds = static_cast<double>(deadline_ns_ - start_ns_) / 1e9;
  const std::string waited = fmt::format("{:.1f} s", std::max(seconds, 0.0));
  return MakeError(
      WEFT_TIMEOUT, {.rank = missing.front(), .group = group_},
      StrCat("group ", group_, ": ", more ? "at least " : "", missing.size(), " of ", size_,
             " ranks did not come within ", waited, ": missing ", ListText(missing),
             "; check that they were started, with the same job and size"));
}

void MembershipExchange::Finish(absl::StatusOr<Membership> result) {
  result_ = std::move(result);
  phase_ = Phase::kFinished;
}

}  // namespace weft
