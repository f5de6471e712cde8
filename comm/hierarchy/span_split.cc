#include "comm/hierarchy/span_split.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/seams.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "comm/group/split_wish.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kLookAgainNs = 1'000'000;

// What a rank says of its part once its island has been split.
struct SpanOffer {
  int32_t result;         // weft_result_t
  uint32_t parent_ended;  // 1: it could not, as the parent has ended
  uint64_t group_id;      // that the part gets if this is its first rank
};

// Of the parent's ranks `members`, in their order.
SpanCore CoreOf(const SpanCore& parent, const std::vector<int>& members) {
  SpanCore core;
  core.membership.members = Renumbered(parent.membership.members, members);
  for (const int member : members)
    core.peers.push_back(parent.peers[static_cast<size_t>(member)]);
  core.islands = IslandsOf(core.membership);
  core.net = parent.net;
  core.foreign = parent.foreign;
  core.links = parent.links;
  return core;
}

bool AnySawTheEnd(const std::vector<SpanOffer>& offers, const std::vector<int>& members) {
  return std::any_of(members.begin(), members.end(), [&](int member) {
    return offers[static_cast<size_t>(member)].parent_ended != 0;
  });
}

// Why the parent has ended, as one of its ranks has seen: what all of them say once the islands
// have settled it. Ok if that takes too long.
absl::Status AwaitEnd(ProcessGroup& parent, int64_t patience_ns) {
  absl::Status cause;
  const auto settled = [&] {
    cause = parent.error();
    return !cause.ok();
  };
  Deadline patience{patience_ns};
  EventCount nap;
  while (!settled() && !patience.Passed(MonotonicNs())) {
    LookSoon();
    Deadline brief{kLookAgainNs};
    (void)WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 0}, brief, settled, [] { return false; });
  }
  return cause;
}

// The first of the members that could not do its part.
absl::Status FirstFailure(const std::vector<SpanOffer>& offers, const std::vector<int>& members,
                          const SpanCore& parent, const std::string& name) {
  for (const int member : members) {
    if (offers[static_cast<size_t>(member)].result == WEFT_SUCCESS) continue;
    ErrorFields fields = parent.end->FieldsOf(member);
    fields.operation = "split";
    return MakeError(WEFT_REMOTE_ERROR, fields,
                     fmt::format("splitting group {}: rank {} could not make its part; its own "
                                 "error says why",
                                 name, member));
  }
  return absl::OkStatus();
}

// This rank has no part. Others may have theirs, and wait in it: if the parent has ended they get
// its cause there, and do not find that this rank has left.
void Leave(ProcessGroup& inner, ProcessGroup& parent) {
  if (const absl::Status ended = parent.error(); !ended.ok()) inner.Fail(ended);
  inner.Close();
}

}  // namespace

absl::StatusOr<std::optional<SpanPart>> SplitSpan(ProcessGroup& parent, const SpanCore& core,
                                                  int color, int key, const GroupOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<int> members,
                        AgreeOnMembers(parent, color, key, options));
  SpanPart part{.options = OptionsOfPart(options, {.name = parent.name()}, color)};
  part.rank =
      static_cast<int>(std::find(members.begin(), members.end(), parent.rank()) - members.begin());
  SpanOffer offer{};
  const absl::Status numbered = SystemSeams().random->Fill(&offer.group_id, sizeof(offer.group_id));
  part.core = CoreOf(core, members);
  const Islands& islands = part.core.islands;
  GroupOptions of_island = part.options;
  if (color >= 0)
    of_island.group_ranks =
        islands.ranks[static_cast<size_t>(islands.island_of[static_cast<size_t>(part.rank)])];
  absl::StatusOr<std::shared_ptr<ProcessGroup>> inner =
      core.inner->Split(color, part.rank, of_island);
  if (inner.ok() && !numbered.ok()) {
    if (*inner != nullptr) (*inner)->Close();
    inner = numbered;
  }
  std::shared_ptr<SpanRecords> records;
  if (color >= 0 && inner.ok() && islands.count() > 1) {
    auto made = MakeRecords(**inner, of_island.group_ranks, islands.PlaceOf(part.rank));
    if (made.ok()) {
      records = *std::move(made);
    } else {
      (*inner)->Close();
      inner = made.status();
    }
  }
  offer.result = ResultOf(inner.status());
  offer.parent_ended = !inner.ok() && !core.inner->error().ok() ? 1 : 0;
  std::vector<SpanOffer> offers;
  absl::Status agreed = ExchangeForSplit(parent, options, kSplitOfferSalt, offer, &offers);
  const bool parent_ended =
      offer.parent_ended != 0 || (color >= 0 && agreed.ok() && AnySawTheEnd(offers, members));
  if (agreed.ok() && parent_ended) agreed = AwaitEnd(parent, core.net->watch().patience_ns());
  if (agreed.ok() && !inner.ok()) agreed = inner.status();
  if (agreed.ok() && color >= 0) agreed = FirstFailure(offers, members, core, parent.name());
  if (!agreed.ok()) {
    if (inner.ok() && *inner != nullptr) Leave(**inner, parent);
    return agreed;
  }
  if (color < 0) return std::optional<SpanPart>();
  if (islands.count() == 1) {
    part.on_one_island = *std::move(inner);
    return part;
  }
  part.core.membership.group_id = offers[static_cast<size_t>(members[0])].group_id;
  part.core.parent_id = core.membership.group_id;
  part.core.parent_rank = parent.rank();
  part.core.inner = *std::move(inner);
  part.core.records = std::move(records);
  part.core.end = std::make_shared<SpanEnd>(part.core.membership.group_id, part.options.name,
                                            part.core.inner, part.core.membership.members,
                                            part.core.records, &part.core.net->watch());
  part.core.net->watch().Add(part.core.end, SpanWatch::Kind::kPart);
  return part;
}

}  // namespace weft
