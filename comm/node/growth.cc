// The leader decides before it admits anybody: if it dies in between nobody has been told anything, and the newcomers still wait. From
// then on they can be told one way only, by the store; so a meeting that came to nothing is called off there by every rank that was to
// be at it.
#include "comm/node/growth.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/number_hash.h"
#include "comm/node/make_group.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/prefix_store.h"
#include "fmt/format.h"

namespace weft {
namespace {

using EndKind = ReconfigureOutcome::Kind;

constexpr int64_t kLookForNewcomersNs = 10'000'000;
// A store that does not answer is not waited for longer.
constexpr int64_t kStoreNs = 5'000'000'000;

std::string MeetingOf(const std::string& group, uint64_t id) {
  return fmt::format("weft/join/{}/{:016x}/", group, id);
}

constexpr int kWorldRanksMax = 1 << 20;  // that a newcomer may wish for

// Numbers for newcomers: the one that it wishes for if no other member has it, else one above those of all members.
class WorldNumbers {
 public:
  WorldNumbers(const NodeState& state, const std::vector<int>& members) {
    for (int rank = 0; rank < state.size; ++rank)
      next_ = std::max(next_, state.WorldRank(rank) + 1);
    for (const int member : members) {
      if (member != kNewRank) taken_.push_back(state.WorldRank(member));
    }
  }

  int Take(int wished) {
    const bool free =
        wished >= 0 && std::find(taken_.begin(), taken_.end(), wished) == taken_.end();
    const int number = free && wished < kWorldRanksMax ? wished : next_;
    next_ = std::max(next_, number + 1);
    taken_.push_back(number);
    return number;
  }

 private:
  std::vector<int> taken_;
  int next_ = 0;
};

}  // namespace

bool Growth::Lead(const ReconfigureAttempt& attempt, const std::vector<int>& members,
                  int64_t deadline_ns, absl::Status* why) {
  const int64_t now_ns = MonotonicNs();
  if (now_ns < look_ns_ && now_ns < deadline_ns) return false;
  look_ns_ = now_ns + kLookForNewcomersNs;
  const std::string& group = failures_.names().group();
  const auto open = static_cast<size_t>(std::count(members.begin(), members.end(), kNewRank));
  NewcomerQueue queue(*options_.newcomers, group);
  const auto newcomers = queue.Waiting(open, Later(now_ns, kStoreNs));
  if (!newcomers.ok()) {
    *why = Annotate(newcomers.status(), "asking the store who would join: ");
    (void)attempt.Decide(EndKind::kNoStore, state_.rank, state_.rank);
    return true;
  }
  if (newcomers->size() < open) {
    if (now_ns < deadline_ns) return false;
    (void)attempt.Decide(EndKind::kNoNewcomers, state_.rank, static_cast<int>(newcomers->size()));
    return true;
  }
  NumberHash id;
  id.Add(state_.segment.header().group_id);
  id.Add(attempt.number());
  id.Add(RecorderTicks());
  attempt.board().Offer(state_.rank, {.group_id = id.Get(), .members = members});
  if (!attempt.Decide(EndKind::kAdmit, state_.rank, state_.rank)) return true;
  meeting_ = MeetingOf(group, id.Get());
  admitted_ = Admit(members, *newcomers);
  return true;
}

absl::Status Growth::Admit(const std::vector<int>& members,
                           const std::vector<Newcomer>& newcomers) {
  NewcomerQueue queue(*options_.newcomers, failures_.names().group());
  const int64_t deadline_ns = Later(MonotonicNs(), kStoreNs);
  const auto own = std::find(members.begin(), members.end(), state_.rank);
  Admission admission{.meeting = meeting_,
                      .group_name = options_.name,
                      .world_name = world_name_,
                      .epoch = state_.epoch + 1,
                      .size = static_cast<int32_t>(members.size()),
                      .by = DescribeSelf(static_cast<int>(own - members.begin()))};
  WorldNumbers numbers(state_, members);
  auto next = newcomers.begin();
  for (size_t place = 0; place < members.size(); ++place) {
    if (members[place] != kNewRank) continue;
    admission.rank = static_cast<int32_t>(place);
    admission.world_rank = numbers.Take(next->member.world_rank);
    newcomers_.push_back(next->member);
    newcomers_.back().rank = admission.rank;
    const absl::Status said = queue.Admit(*next, admission, deadline_ns);
    if (!said.ok()) return Annotate(said, "telling a process that it may join: ");
    ++next;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> Growth::Make(ReconfigureAttempt& attempt, int leader,
                                                           int64_t deadline_ns) {
  const std::optional<ReconfigureOffer> offer = attempt.board().OfferOf(leader);
  if (!offer) {
    return MakeError(WEFT_CORRUPT, failures_.names().FieldsOf(leader),
                     StrCat("what rank ", leader, " offers cannot have been written by a rank"));
  }
  meeting_ = MeetingOf(failures_.names().group(), offer->group_id);
  const std::vector<int>& members = offer->members;
  const auto own = std::find(members.begin(), members.end(), state_.rank);
  if (own == members.end()) return std::shared_ptr<ProcessGroup>();
  WEFT_RETURN_IF_ERROR(admitted_);
  const MeetingPlace place{.rank = static_cast<int>(own - members.begin()),
                           .size = static_cast<int>(members.size()),
                           .epoch = state_.epoch + 1,
                           .world_rank = state_.WorldRank(state_.rank),
                           .world_name = world_name_,
                           .watched = newcomers_,
                           .called_off = [&] {
                             return GivenUp(attempt, members);
                           }};
  PrefixStore meeting(*options_.newcomers, meeting_);
  try {
    auto made = MeetInStore(meeting, place, options_, deadline_ns);
    if (!made.ok()) return InRanksOfThisGroup(made.status(), members);
    return made;
  } catch (const std::bad_alloc&) {
    return MakeError(WEFT_OUT_OF_MEMORY, {.group = options_.name}, "out of memory");
  }
}

// A failure of the meeting, which names ranks of the group that was to be.
absl::Status Growth::InRanksOfThisGroup(const absl::Status& failure,
                                        const std::vector<int>& members) const {
  ErrorFields fields = FieldsOf(failure);
  if (fields.rank < 0 || fields.rank >= static_cast<int>(members.size())) return failure;
  const int member = members[static_cast<size_t>(fields.rank)];
  const std::string who =
      member == kNewRank ? "a process that was to join" : failures_.names().NameOf(member);
  const std::string number = StrCat(" (rank ", fields.rank, " of the group that was to be): ");
  fields.rank = member == kNewRank ? -1 : member;
  fields.world_rank = member == kNewRank ? -1 : state_.WorldRank(member);
  return MakeError(ResultOf(failure), fields, StrCat(who, number, FromAbsl(failure.message())));
}

// Why the ranks of the old group will not all have the new one, if that is known.
absl::Status Growth::GivenUp(ReconfigureAttempt& attempt, const std::vector<int>& members) const {
  const MemberEnds ends = LookAtMembers(attempt, members);
  if (!ends.cause.ok()) return ends.cause;
  if (IsCalledOff(*options_.newcomers, meeting_)) {
    return MakeError(WEFT_REMOTE_ERROR, {.group = options_.name},
                     "a process that was to join has given up, or the store does not answer");
  }
  if (!ends.consequence.ok()) {
    // Whoever gave up because of another member did so after that member's vote, which this rank may have looked for too early.
    const absl::Status cause = LookAtMembers(attempt, members).cause;
    return cause.ok() ? ends.consequence : cause;
  }
  if (!attempt.Decided()) return absl::OkStatus();
  return MakeError(WEFT_ABORTED, {.group = options_.name},
                   "another rank has given up making the group with those that join");
}

Growth::MemberEnds Growth::LookAtMembers(ReconfigureAttempt& attempt,
                                         const std::vector<int>& members) const {
  MemberEnds ends;
  for (const int member : members) {
    if (member == kNewRank || member == state_.rank) continue;
    const ErrorFields fields = failures_.names().FieldsOf(member);
    const std::string name = failures_.names().NameOf(member);
    if (const auto exit = state_.peers[static_cast<size_t>(member)]->Ended()) {
      ErrorFields lost = fields;
      lost.signal = exit->signal;
      lost.exit_code = exit->exit_code;
      ends.cause = MakeError(WEFT_PEER_LOST, lost,
                             StrCat(name, " (pid ", fields.pid, ") ", exit->ToString(),
                                    " while the group was made with those that join"));
      return ends;
    }
    const std::optional<uint64_t> vote = attempt.board().VoteOf(member, attempt.number());
    const uint64_t result = vote.value_or(WEFT_SUCCESS);
    if (!attempt.Gone(member) && result == WEFT_SUCCESS) continue;
    const absl::Status gave_up = MakeError(
        WEFT_REMOTE_ERROR, fields,
        StrCat(name, " gave up making the group with those that join; its own error says why"));
    if (result == WEFT_REMOTE_ERROR || result == WEFT_ABORTED) {
      if (ends.consequence.ok()) ends.consequence = gave_up;
    } else if (ends.cause.ok()) {
      ends.cause = gave_up;
    }
  }
  return ends;
}

void Growth::CallOff(ProcessGroup* made) const {
  if (made != nullptr) made->Close();
  if (meeting_.empty()) return;
  weft::CallOff(*options_.newcomers, meeting_, Later(MonotonicNs(), kStoreNs));
}

}  // namespace weft
