// Both exchanges are collectives of the parent, so all its ranks go through them whatever happens to one of them, and what a
// rank could not do is said in its offer: only then is it sure that nobody waits in the parent for one that has given up.
#include "comm/node/split.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/status.h"
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

struct Wish {
  int32_t color;
  int32_t key;
};

// Parent ranks of `color`, in the order of the new group.
std::vector<int> MembersOf(const std::vector<Wish>& wishes, int color) {
  std::vector<int> members;
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  return members;
}

template <typename T>
absl::Status Exchange(ProcessGroup& parent, const GroupOptions& options, uint32_t signature_salt,
                      const T& mine, std::vector<T>* all) {
  all->resize(static_cast<size_t>(parent.size()));
  Collective gather{.kind = OpKind::kAllGather,
                    .count = sizeof(T),
                    .purpose = {.signature_salt = signature_salt,
                                .record = PackPurpose({.kind = options.made_by})}};
  gather.in = &mine;
  gather.out = all->data();
  gather.timeout_ns = std::max<int64_t>(options.making_timeout_ns(), 0);
  return parent.Run(gather);
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
                                 parent_name, members[0]));
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
  GroupOptions named = options;
  if (named.name.empty()) named.name = fmt::format("{}.{}", parent_name, color);
  if (named.timeout_ns <= 0) named.timeout_ns = parent.options.timeout_ns;
  return JoinSegment(std::move(part), chosen.offset, chosen.group_id, named, parent.parts);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> SplitNodeGroup(const SplitParent& parent, int color,
                                                             int key, const GroupOptions& options) {
  const NodeState& state = parent.state;
  std::vector<Wish> wishes;
  WEFT_RETURN_IF_ERROR(Exchange(parent.group, options, kSplitWishSalt, Wish{color, key}, &wishes));
  const std::vector<int> members = MembersOf(wishes, color);
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
  const absl::Status exchanged = Exchange(parent.group, options, kSplitOfferSalt, offer, &offers);
  if (!exchanged.ok() && leads && made.ok()) KeepFailed(parent, offer.offset, members);
  WEFT_RETURN_IF_ERROR(exchanged);
  WEFT_RETURN_IF_ERROR(made);
  if (color < 0) return std::shared_ptr<ProcessGroup>();
  absl::StatusOr<std::shared_ptr<ProcessGroup>> part =
      JoinPart(parent, color, members, offers[static_cast<size_t>(members[0])], options);
  if (!part.ok() && leads) KeepFailed(parent, offer.offset, members);
  return part;
}

}  // namespace weft
