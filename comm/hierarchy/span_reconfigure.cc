// Ranks are compared by their numbers in the world, which they keep: those of a group, of its islands, and of the groups that these
// have are others each time.
#include "comm/hierarchy/span_reconfigure.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/number_hash.h"
#include "comm/group/split_wish.h"
#include "comm/node/make_group.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr uint32_t kReconfigureSalt = 0x72636667;

// What a rank says of the list that it was called with.
struct ReconfigureWish {
  uint64_t hash;
};

uint64_t HashOf(const std::vector<int>& ranks, uint64_t begin) {
  NumberHash hash;
  hash.Add(begin);
  for (const int rank : ranks)
    hash.Add(static_cast<uint64_t>(rank));
  return hash.Get();
}

// The rank with that number in the world; -1: none.
int RankWith(const std::vector<GroupMember>& members, int world_rank) {
  const auto found = std::find_if(
      members.begin(), members.end(),
      [world_rank](const GroupMember& member) { return member.world_rank == world_rank; });
  return found != members.end() ? static_cast<int>(found - members.begin()) : -1;
}

int PlaceWith(const ProcessGroup& inner, int world_rank) {
  for (int place = 0; place < inner.size(); ++place) {
    if (inner.world_rank(place) == world_rank) return place;
  }
  return -1;
}

std::string NameOf(const GroupMember& member) {
  return fmt::format("rank {} (host {}, pid {})", member.rank, member.host, member.pid);
}

ErrorFields FieldsOfMember(const GroupMember& member, const std::string& group) {
  return {.rank = member.rank,
          .pid = member.pid,
          .host = member.host,
          .group = group,
          .world_rank = member.world_rank};
}

}  // namespace

SpanReconfigure::SpanReconfigure(const Membership& first, std::vector<int> members,
                                 const GroupOptions& options, const GroupOptions& inherited)
    : first_(first), members_(std::move(members)), options_(options) {
  if (options_.name.empty()) options_.name = inherited.name;
  if (options_.timeout_ns <= 0) {
    options_.timeout_ns = inherited.timeout_ns;
    if (options_.init_timeout_ns <= 0) options_.init_timeout_ns = inherited.init_timeout_ns;
  }
  deadline_ns_ = InitDeadlineNs(options_);
  options_.init_timeout_ns = inherited.init_timeout_ns;  // that of the call is of the call alone
}

std::string SpanReconfigure::Heading() const {
  return StrCat("making group ", options_.name, " anew: ");
}

absl::Status SpanReconfigure::Check(const SpanCore& core, const std::vector<int>& members,
                                    const std::string& name) {
  if (!core.of_all) {
    return MakeError(WEFT_UNSUPPORTED, {.group = name},
                     fmt::format("group {} was split from another one and is on several nodes; "
                                 "reconfigure that one, and split it again",
                                 name));
  }
  const bool joins = std::any_of(members.begin(), members.end(), [](int rank) { return rank < 0; });
  if (!joins) return absl::OkStatus();
  return MakeError(
      WEFT_UNSUPPORTED, {.group = name},
      fmt::format("group {} is on several nodes; processes join groups of one node only", name));
}

bool SpanReconfigure::MayTryAgain(const absl::Status& status) const {
  const weft_result_t result = ResultOf(status);
  return (result == WEFT_PEER_LOST || result == WEFT_UNREACHABLE) && MonotonicNs() < deadline_ns_;
}

// --- Who goes on ---------------------------------------------------------------------------------

absl::StatusOr<SpanReconfigure::Cut> SpanReconfigure::Agree(const SpanCore& old) const {
  const std::vector<GroupMember>& members = old.membership.members;
  const SpanWatch::NextMembership next = old.net->watch().AwaitMembership(old.epoch, deadline_ns_);
  WEFT_RETURN_IF_ERROR(Annotate(next.interrupted, Heading()));
  if (next.result == WEFT_NO_QUORUM) {
    return MakeError(WEFT_NO_QUORUM, {.group = options_.name},
                     StrCat(Heading(),
                            "too few ranks live and can be reached to go on without the others, "
                            "who may go on by themselves"));
  }
  if (next.result != WEFT_SUCCESS) {
    const int late = RankWith(members, next.late);
    if (late < 0) {
      return MakeError(WEFT_TIMEOUT, {.group = options_.name},
                       Heading() + "the nodes have not agreed in time on who goes on");
    }
    const GroupMember& member = members[static_cast<size_t>(late)];
    return MakeError(
        WEFT_TIMEOUT, FieldsOfMember(member, options_.name),
        StrCat(Heading(), NameOf(member), " lives, and has not called reconfigure in time"));
  }
  Cut cut{.epoch = next.members.epoch};
  cut.group_id = HashOf({}, old.net->links()->first_group_id() + cut.epoch);
  bool among_them = false;
  for (const GroupMember& member : members) {
    if (!next.members.ranks.Has(member.world_rank)) continue;
    cut.wanted.push_back(member.rank);
    among_them |= member.world_rank == old.inner->world_rank(old.inner->rank());
  }
  if (among_them) return cut;
  return MakeError(WEFT_NO_QUORUM, {.group = options_.name},
                   Heading() +
                       "the other nodes could not reach this one, and have gone on "
                       "without it");
}

SpanReconfigure::Cut SpanReconfigure::Narrow(const SpanCore& core, const std::vector<int>& wanted) {
  return {
      .wanted = wanted, .group_id = HashOf(wanted, core.membership.group_id), .epoch = core.epoch};
}

bool SpanReconfigure::IsOther(const std::vector<int>& wanted, const ProcessGroup& group) {
  std::vector<int> all(static_cast<size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  return wanted != all;
}

absl::StatusOr<std::vector<int>> SpanReconfigure::Vote(ProcessGroup& group,
                                                       const SpanCore& core) const {
  const ReconfigureWish mine{HashOf(members_, members_.size())};
  GroupOptions options = options_;
  options.init_timeout_ns = std::max<int64_t>(deadline_ns_ - MonotonicNs(), 1);
  std::vector<ReconfigureWish> all;
  WEFT_RETURN_IF_ERROR(ExchangeForSplit(group, options, kReconfigureSalt, mine, &all));
  const std::vector<GroupMember>& members = core.membership.members;
  for (const GroupMember& member : members) {
    const ReconfigureWish& wish = all[static_cast<size_t>(member.rank)];
    if (wish.hash == all[0].hash) continue;
    const GroupMember& other = members[0];
    return MakeError(WEFT_MISMATCH, FieldsOfMember(member, options_.name),
                     StrCat(Heading(), "world rank ", member.world_rank,
                            " asks for other members than world rank ", other.world_rank,
                            "; all ranks must pass the same list"));
  }
  std::vector<int> wanted;
  for (const int rank : members_) {
    const GroupMember& asked = first_.members[static_cast<size_t>(rank)];
    wanted.push_back(RankWith(members, asked.world_rank));
    if (wanted.back() >= 0) continue;
    return MakeError(WEFT_PEER_LOST, FieldsOfMember(asked, options_.name),
                     StrCat(Heading(), NameOf(asked), " is to be a member, and is gone"));
  }
  if (wanted.empty()) {
    wanted.resize(members.size());
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  return wanted;
}

// --- Making it -----------------------------------------------------------------------------------

GroupOptions SpanReconfigure::InnerOptions(uint32_t epoch) const {
  GroupOptions options = options_;
  options.epoch = epoch;
  options.init_timeout_ns = std::max<int64_t>(deadline_ns_ - MonotonicNs(), 1);
  return options;
}

// The group of this island's ranks. `ended`: why it is none that can be used, a loss that all islands must hear of then.
absl::Status SpanReconfigure::MakeInner(const SpanCore& old, const Cut& cut, SpanCore* core,
                                        absl::Status* ended) const {
  GroupOptions options = InnerOptions(cut.epoch);
  std::vector<int> places;
  std::vector<int> fellows;
  for (const GroupMember& member : core->membership.members) {
    const int place = PlaceWith(*old.inner, member.world_rank);
    if (place < 0) continue;
    places.push_back(place);
    fellows.push_back(member.rank);
  }
  // A group of one island is one like any other; one of several has the numbers of the larger group.
  if (core->islands.count() > 1) options.group_ranks = fellows;
  auto inner = old.inner->Reconfigure(places, options);
  if (ResultOf(inner.status()) == WEFT_PEER_LOST && core->islands.count() > 1) {
    *ended = inner.status();
    options.group_ranks.clear();
    inner = old.inner->Reconfigure({}, options);
  }
  WEFT_RETURN_IF_ERROR(inner.status());
  core->inner = *std::move(inner);
  return absl::OkStatus();
}

// The home group, and the records.
absl::StatusOr<std::shared_ptr<ProcessGroup>> SpanReconfigure::MakeHome(const Cut& cut,
                                                                        SpanCore* core) const {
  const int place = core->inner->rank();
  const int own = RankWith(core->membership.members, core->inner->world_rank(place));
  GroupOptions of_home = InnerOptions(cut.epoch);
  of_home.group_ranks =
      core->islands.ranks[static_cast<size_t>(core->islands.island_of[static_cast<size_t>(own)])];
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> home, core->inner->Split(0, place, of_home));
  auto records = MakeRecords(*core->inner, of_home.group_ranks, place);
  if (!records.ok()) {
    home->Close();
    return records.status();
  }
  core->records = *std::move(records);
  return home;
}

absl::StatusOr<SpanPart> SpanReconfigure::Remake(const SpanCore& old, const Cut& cut) const {
  const int own_world_rank = old.inner->world_rank(old.inner->rank());
  SpanPart part{.options = options_};
  SpanCore& core = part.core;
  core.membership.group_id = cut.group_id;
  core.membership.members = Renumbered(old.membership.members, cut.wanted);
  core.islands = IslandsOf(core.membership);
  core.epoch = cut.epoch;
  core.of_all = true;
  core.foreign = old.foreign;
  core.links = old.links;
  for (const int rank : cut.wanted)
    core.peers.push_back(old.peers[static_cast<size_t>(rank)]);
  const std::vector<GroupMember>& members = core.membership.members;
  part.rank = RankWith(members, own_world_rank);

  // Who of this island is gone is no failure from here on, and all of its ranks come here before any goes on.
  SpanLinks& links = *old.net->links();
  links.watch().Remove(old.end.get());
  links.Retire();
  const bool on_this_island = std::any_of(
      members.begin(), members.end(),
      [&](const GroupMember& member) { return PlaceWith(*old.inner, member.world_rank) >= 0; });
  if (!on_this_island) {
    old.inner->Close();
    return part;
  }
  absl::Status ended;
  WEFT_RETURN_IF_ERROR(MakeInner(old, cut, &core, &ended));
  if (part.rank < 0) {
    if (core.inner != nullptr) core.inner->Close();
    return part;
  }
  if (core.islands.count() == 1) {
    part.on_one_island = std::move(core.inner);
    return part;
  }
  std::shared_ptr<ProcessGroup> home = core.inner;
  if (ended.ok()) {
    auto made = MakeHome(cut, &core);
    if (made.ok()) {
      home = *std::move(made);
    } else {
      ended = made.status();
    }
  }
  // Others count on this rank. So there is a group, which has ended: all hear why, and meet in the next one.
  if (core.records == nullptr) core.records = std::make_shared<SpanRecords>(part.rank);
  const auto home_end = std::make_shared<SpanEnd>(~cut.group_id, options_.name, home, members);
  core.end = std::make_shared<SpanEnd>(cut.group_id, options_.name, core.inner, members,
                                       core.records, &links.watch());
  core.net = std::make_shared<SpanNet>(old.net->links(), home, home_end);
  if (!ended.ok()) core.inner->Fail(ended);
  links.Renew(std::move(home), home_end);
  links.watch().Add(core.end, SpanWatch::Kind::kFirst);
  return part;
}

}  // namespace weft
