// A number is drawn before the line that goes with it is written, and a process may end in between: so a ticket without a line is
// passed over, but not taken for over. Tickets that are over, from the first one on, are counted by `over`, so that they are not read again;
// of several ranks that count at a time the last one may write less than another has, which costs reading them once more.
#include "comm/rendezvous/newcomer_queue.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/later.h"
#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "base/wire.h"
#include "comm/rendezvous/member_watch.h"

namespace weft {
namespace {

constexpr uint16_t kQueueVersion = 3;
constexpr size_t kGroupNameBytesMax = 256;
constexpr std::string_view kOver = "over";  // it has been admitted
constexpr std::string_view kLeft = "left";  // it does not wait any longer
constexpr int64_t kNotWaiting = std::numeric_limits<int64_t>::min();
constexpr int64_t kLeaveNs = 2'000'000'000;

StoreRequest Look(std::string key) {
  return {.kind = StoreRequest::Kind::kWait, .key = std::move(key), .deadline_ns = kNotWaiting};
}

// The store has answered that there is no such key.
bool IsAbsent(const StoreReply& reply) {
  return ResultOf(reply.status) == WEFT_TIMEOUT && !reply.unanswered;
}

absl::Status NoAnswer() {
  return MakeError(WEFT_TIMEOUT, "the store takes too long to say who would join");
}

std::string OffKey(std::string_view meeting) {
  return StrCat(meeting, "off");
}

// Of a process of another machine or pid namespace that is not known: it counts as living.
bool HasEnded(const GroupMember& member) {
  MemberWatch watch(*SystemSeams().proc, DescribeSelf(0), "");
  watch.Add(member);
  return !watch.Look().ok();
}

std::string EncodeTicket(const GroupMember& member) {
  WireWriter writer;
  writer.U16(kQueueVersion);
  WriteMember(member, writer);
  return writer.Take();
}

std::string EncodeAdmission(const Admission& admission) {
  WireWriter writer;
  writer.U16(kQueueVersion);
  writer.Text(admission.meeting);
  writer.Text(admission.group_name);
  writer.Text(admission.world_name);
  writer.U32(admission.epoch);
  writer.I32(admission.rank);
  writer.I32(admission.size);
  writer.I32(admission.world_rank);
  writer.I32(admission.by.rank);
  WriteMember(admission.by, writer);
  return writer.Take();
}

absl::StatusOr<Admission> DecodeAdmission(std::string_view bytes) {
  WireReader reader(bytes);
  const uint16_t version = reader.U16();
  if (reader.ok() && version != kQueueVersion) {
    return MakeError(WEFT_UNSUPPORTED, StrCat("the group speaks version ", version,
                                              " of weft's admission, this "
                                              "process version ",
                                              kQueueVersion, "; use the same weft on every rank"));
  }
  Admission admission;
  admission.meeting = std::string(reader.Text(kStoreKeyBytesMax));
  admission.group_name = std::string(reader.Text(kGroupNameBytesMax));
  admission.world_name = std::string(reader.Text(kGroupNameBytesMax));
  admission.epoch = reader.U32();
  admission.rank = reader.I32();
  admission.size = reader.I32();
  admission.world_rank = reader.I32();
  admission.by.rank = reader.I32();
  ReadMember(reader, admission.by);
  const bool placed =
      admission.rank >= 0 && admission.rank < admission.size && admission.world_rank >= 0;
  if (reader.Finished() && placed && admission.epoch > 1) return admission;
  return MakeError(WEFT_CORRUPT,
                   "what the store has for this process is no admission to a group; is the store "
                   "used for something else too?");
}

}  // namespace

NewcomerQueue::NewcomerQueue(Store& store, std::string_view group_name)
    : store_(store), prefix_(StrCat("weft/join/", group_name, "/")) {}

std::string NewcomerQueue::Key(std::string_view what, int64_t number) const {
  return StrCat(prefix_, what, "/", number);
}

absl::StatusOr<int64_t> NewcomerQueue::Count(std::string_view what) {
  const StoreReply reply = store_.Ask(Look(StrCat(prefix_, what)));
  if (IsAbsent(reply)) return 0;
  WEFT_RETURN_IF_ERROR(reply.status);
  int64_t count = 0;
  if (absl::SimpleAtoi(reply.value, &count) && count >= 0) return count;
  return MakeError(WEFT_CORRUPT, StrCat("the store's ", prefix_, what,
                                        " is no number of processes that would join; is the store "
                                        "used for something else too?"));
}

absl::Status NewcomerQueue::Set(std::string key, std::string value, int64_t deadline_ns) {
  return store_
      .Ask({.kind = StoreRequest::Kind::kSet,
            .key = std::move(key),
            .value = std::move(value),
            .deadline_ns = deadline_ns})
      .status;
}

absl::StatusOr<int64_t> NewcomerQueue::Enter(const GroupMember& self, int64_t deadline_ns) {
  const StoreReply drawn = store_.Ask({.kind = StoreRequest::Kind::kAdd,
                                       .key = StrCat(prefix_, "tickets"),
                                       .delta = 1,
                                       .deadline_ns = deadline_ns});
  WEFT_RETURN_IF_ERROR(drawn.status);
  WEFT_RETURN_IF_ERROR(Set(Key("ticket", drawn.number), EncodeTicket(self), deadline_ns));
  return drawn.number;
}

absl::StatusOr<std::optional<Admission>> NewcomerQueue::Await(int64_t ticket, int64_t deadline_ns) {
  const StoreReply reply = store_.Ask({.kind = StoreRequest::Kind::kWait,
                                       .key = Key("admitted", ticket),
                                       .deadline_ns = deadline_ns});
  if (IsAbsent(reply)) return std::optional<Admission>();
  WEFT_RETURN_IF_ERROR(reply.status);
  Mark(ticket, kOver);
  (void)store_.Ask({.kind = StoreRequest::Kind::kRemove,
                    .key = Key("admitted", ticket),
                    .deadline_ns = Later(MonotonicNs(), kLeaveNs)});
  WEFT_ASSIGN_OR_RETURN(Admission admission, DecodeAdmission(reply.value));
  return std::optional<Admission>(std::move(admission));
}

// The ticket first: who admits this process looks at it after having written the admission, so one of the two sees the other.
std::optional<Admission> NewcomerQueue::GiveUp(int64_t ticket) {
  Mark(ticket, kLeft);
  const StoreReply reply = store_.Ask(Look(Key("admitted", ticket)));
  if (!reply.status.ok()) return std::nullopt;
  absl::StatusOr<Admission> admission = DecodeAdmission(reply.value);
  if (!admission.ok()) return std::nullopt;
  return *std::move(admission);
}

void NewcomerQueue::Mark(int64_t ticket, std::string_view what) {
  const absl::Status marked =
      Set(Key("ticket", ticket), std::string(what), Later(MonotonicNs(), kLeaveNs));
  if (marked.ok()) return;
  LogInfo("the store did not take that ticket ", ticket, " is over: ", FromAbsl(marked.message()));
}

absl::StatusOr<std::optional<Newcomer>> NewcomerQueue::Read(int64_t ticket, bool* over) {
  const StoreReply reply = store_.Ask(Look(Key("ticket", ticket)));
  *over = false;
  if (IsAbsent(reply)) return std::optional<Newcomer>();
  WEFT_RETURN_IF_ERROR(reply.status);
  WireReader reader(reply.value);
  Newcomer newcomer{.ticket = ticket};
  const bool known = reader.U16() == kQueueVersion;
  ReadMember(reader, newcomer.member);
  *over = !known || !reader.Finished() || HasEnded(newcomer.member);
  if (*over) return std::optional<Newcomer>();
  // Who has admitted it may have died before the ticket was over.
  const StoreReply admitted = store_.Ask(Look(Key("admitted", ticket)));
  if (admitted.status.ok()) return std::optional<Newcomer>();
  if (!IsAbsent(admitted)) return admitted.status;
  return std::optional<Newcomer>(std::move(newcomer));
}

absl::StatusOr<std::vector<Newcomer>> NewcomerQueue::Waiting(size_t count_max,
                                                             int64_t deadline_ns) {
  std::vector<Newcomer> waiting;
  WEFT_ASSIGN_OR_RETURN(const int64_t tickets, Count("tickets"));
  if (tickets == 0) return waiting;
  WEFT_ASSIGN_OR_RETURN(const int64_t passed, Count("over"));
  int64_t all_over = passed;  // up to and with this one
  for (int64_t ticket = passed + 1; ticket <= tickets && waiting.size() < count_max; ++ticket) {
    if (MonotonicNs() > deadline_ns) return NoAnswer();
    bool over = false;
    WEFT_ASSIGN_OR_RETURN(std::optional<Newcomer> newcomer, Read(ticket, &over));
    if (newcomer.has_value()) waiting.push_back(*std::move(newcomer));
    if (over && all_over == ticket - 1) all_over = ticket;
  }
  if (all_over > passed) {
    WEFT_RETURN_IF_ERROR(Set(StrCat(prefix_, "over"), std::to_string(all_over), deadline_ns));
  }
  return waiting;
}

absl::Status NewcomerQueue::Admit(const Newcomer& newcomer, const Admission& admission,
                                  int64_t deadline_ns) {
  WEFT_RETURN_IF_ERROR(
      Set(Key("admitted", newcomer.ticket), EncodeAdmission(admission), deadline_ns));
  const StoreReply ticket = store_.Ask(Look(Key("ticket", newcomer.ticket)));
  WEFT_RETURN_IF_ERROR(ticket.status);
  if (ticket.value == kLeft) {
    return MakeError(WEFT_REMOTE_ERROR, {.pid = newcomer.member.pid, .host = newcomer.member.host},
                     StrCat("pid ", newcomer.member.pid, " on ", newcomer.member.host,
                            " has given up waiting at the same moment"));
  }
  // It may be slow to say so itself, and must not be admitted again.
  return Set(Key("ticket", newcomer.ticket), std::string(kOver), deadline_ns);
}

void CallOff(Store& store, std::string_view meeting, int64_t deadline_ns) {
  const absl::Status said = store
                                .Ask({.kind = StoreRequest::Kind::kSet,
                                      .key = OffKey(meeting),
                                      .value = "1",
                                      .deadline_ns = deadline_ns})
                                .status;
  if (!said.ok()) {
    LogWarn(
        "a process that was to join the group may wait for it until its deadline: the store did "
        "not take that the meeting is off: ",
        FromAbsl(said.message()));
  }
}

bool IsCalledOff(Store& store, std::string_view meeting) {
  return !IsAbsent(store.Ask(Look(OffKey(meeting))));
}

}  // namespace weft
