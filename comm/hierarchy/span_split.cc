#include "comm/hierarchy/span_split.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/seams.h"
#include "base/status.h"
#include "comm/group/split_wish.h"
#include "fmt/format.h"

namespace weft {
namespace {

// What a rank says of its part once its island has been split.
struct SpanOffer {
  int32_t result;  // weft_result_t
  uint32_t unused;
  uint64_t group_id;  // that the part gets if this is its first rank
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
  std::vector<SpanOffer> offers;
  absl::Status agreed = ExchangeForSplit(parent, options, kSplitOfferSalt, offer, &offers);
  if (agreed.ok() && color >= 0) agreed = FirstFailure(offers, members, core, parent.name());
  if (!inner.ok()) return inner.status();
  if (!agreed.ok()) {
    if (*inner != nullptr) (*inner)->Close();
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
  part.core.end =
      std::make_shared<SpanEnd>(part.core.membership.group_id, part.options.name, part.core.inner,
                                part.core.membership.members, part.core.records);
  part.core.net->watch().Add(part.core.end, SpanWatch::Kind::kPart);
  return part;
}

}  // namespace weft
