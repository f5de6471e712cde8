#include "comm/node/split.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/group/split_wish.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "fmt/format.h"

namespace weft {
namespace {

// What the first rank of a part tells the others.
struct SplitOffer {
  int32_t result;  // weft_result_t of making the segment
  uint32_t unused;
  uint64_t offset;  // of the segment, in its heap
  uint64_t group_id;
};

// What has ended the parent, with the rank that its culprit has in the part.
absl::Status OfPart(const absl::Status& cause, const std::vector<int>& members) {
  ErrorFields fields = FieldsOf(cause);
  const auto place = std::find(members.begin(), members.end(), fields.rank);
  fields.rank = place != members.end() ? static_cast<int32_t>(place - members.begin()) : -1;
  return MakeError(ResultOf(cause), fields, std::string(cause.message()));
}

// The parent has ended. Who has the offer may be in the part already: it ends there for the same
// reason, and not because this rank, which has led it, leaves.
void EndFailed(const SplitParent& parent, uint64_t offset, const std::vector<int>& members,
               const absl::Status& cause) {
  char* const base = parent.state.peers[static_cast<size_t>(parent.state.rank)]->base() + offset;
  const Segment segment(base, static_cast<int>(members.size()));
  segment.board().Raise(0, OfPart(cause, members));
}

// The segment stays until the parent is closed.
void KeepFailed(const SplitParent& parent, uint64_t offset, const std::vector<int>& members) {
  char* const base = parent.state.peers[static_cast<size_t>(parent.state.rank)]->base() + offset;
  parent.failed.Keep(Segment(base, static_cast<int>(members.size())), members);
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinPart(const SplitParent& parent, int color,
                                                       const std::vector<int>& members,
                                                       const SplitOffer& chosen,
                                                       const GroupOptions& options) {
  const NodeState& state = parent.state;
  const std::string& parent_name = parent.options.name;
  if (chosen.result != WEFT_SUCCESS) {
    return MakeError(WEFT_REMOTE_ERROR, {.rank = members[0], .group = parent_name},
                     fmt::format("splitting group {}: rank {} could not make the shared segment",
                                 parent_name, state.GroupRank(members[0])));
  }
  NodeState part;
  part.size = static_cast<int>(members.size());
  part.epoch = state.epoch;
  part.parent_id = state.segment.header().group_id;
  part.parent_rank = state.rank;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == state.rank) part.rank = static_cast<int>(i);
    part.peers.push_back(state.peers[static_cast<size_t>(members[i])]);
    part.world_ranks.push_back(state.WorldRank(members[i]));
  }
  part.world_name = state.world_ranks.empty() ? parent_name : state.world_name;
  part.group_ranks = options.group_ranks;
  return JoinSegment(std::move(part), chosen.offset, chosen.group_id,
                     OptionsOfPart(options, parent.options, color), parent.whole);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> SplitNodeGroup(const SplitParent& parent, int color,
                                                             int key, const GroupOptions& options) {
  const NodeState& state = parent.state;
  WEFT_ASSIGN_OR_RETURN(const std::vector<int> members,
                        AgreeOnMembers(*parent.whole.group, color, key, options));
  const bool leads = color >= 0 && members[0] == state.rank;

  SplitOffer offer{};
  absl::Status made;
  if (leads) {
    static std::atomic<uint32_t> split_count{0};
    offer.group_id =
        RecorderTicks() ^ uint64_t { ++split_count } << 40 ^ static_cast<uint64_t>(state.rank);
    absl::StatusOr<uint64_t> offset =
        MakeSegment(static_cast<int>(members.size()), offer.group_id, state.epoch);
    if (offset.ok()) {
      offer.offset = *offset;
    } else {
      made = offset.status();
      offer.result = ResultOf(made);
    }
  }
  std::vector<SplitOffer> offers;
  const absl::Status exchanged =
      ExchangeForSplit(*parent.whole.group, options, kSplitOfferSalt, offer, &offers);
  if (!exchanged.ok() && leads && made.ok()) {
    EndFailed(parent, offer.offset, members, exchanged);
    KeepFailed(parent, offer.offset, members);
  }
  WEFT_RETURN_IF_ERROR(exchanged);
  WEFT_RETURN_IF_ERROR(made);
  if (color < 0) return std::shared_ptr<ProcessGroup>();
  absl::StatusOr<std::shared_ptr<ProcessGroup>> part =
      JoinPart(parent, color, members, offers[static_cast<size_t>(members[0])], options);
  if (!part.ok() && leads) KeepFailed(parent, offer.offset, members);
  return part;
}

}  // namespace weft
