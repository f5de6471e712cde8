// Cutting a node group: the members of each part are agreed by two small collectives of the parent;
// the part's segment goes into its first rank's heap, which all members have mapped already. No
// message, no descriptor, no new mapping.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "comm/node/node_group.h"
#include "fmt/format.h"

namespace weft {
namespace {

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
absl::Status Exchange(NodeGroup& parent, const GroupOptions& options, uint32_t purpose,
                      const T& mine, std::vector<T>* all) {
  all->resize(static_cast<size_t>(parent.size()));
  Collective gather{.kind = OpKind::kAllGather, .count = sizeof(T), .purpose = {.salt = purpose}};
  gather.in = &mine;
  gather.out = all->data();
  gather.timeout_ns = std::max<int64_t>(options.making_timeout_ns(), 0);
  return parent.Run(gather);
}

}  // namespace

// A visitor, so that Close() does not say "leaving" to the others before this rank has joined the part
// or given it up.
absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::Split(int color, int key,
                                                               const GroupOptions& options) {
  if (!Enter()) return Closed();
  absl::StatusOr<std::shared_ptr<ProcessGroup>> part = SplitAsVisitor(color, key, options);
  Leave();
  return part;
}

// Others may have the offer and be in the segment, so it cannot be freed yet. They are told that its
// rank 0 will not come.
void NodeGroup::KeepFailedSplit(uint64_t offset, const std::vector<int>& members) {
  char* const base = state_.peers[static_cast<size_t>(state_.rank)]->base() + offset;
  const Segment segment(base, static_cast<int>(members.size()));
  segment.control(0).state.store(RankState::kLeft, std::memory_order_seq_cst);
  NotifyAll(segment.control(0).bell);
  MutexLock lock(splits_mutex_);
  failed_splits_.push_back({segment, members});
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::SplitAsVisitor(
    int color, int key, const GroupOptions& options) {
  std::vector<Wish> wishes;
  WEFT_RETURN_IF_ERROR(Exchange(*this, options, kSplitWishPurpose, Wish{color, key}, &wishes));
  const std::vector<int> members = MembersOf(wishes, color);
  const bool leads = color >= 0 && members[0] == state_.rank;

  SplitOffer offer{};
  absl::Status made;
  if (leads) {
    static std::atomic<uint32_t> split_count{0};
    offer.group_id =
        RecorderTicks() ^ uint64_t { ++split_count } << 40 ^ static_cast<uint64_t>(state_.rank);
    absl::StatusOr<uint64_t> offset =
        MakeSegment(static_cast<int>(members.size()), offer.group_id, state_.epoch);
    if (offset.ok()) {
      offer.offset = *offset;
    } else {
      made = offset.status();
      offer.result = ResultOf(made);
    }
  }
  std::vector<SplitOffer> offers;
  const absl::Status exchanged = Exchange(*this, options, kSplitOfferPurpose, offer, &offers);
  if (!exchanged.ok() && leads && made.ok()) KeepFailedSplit(offer.offset, members);
  WEFT_RETURN_IF_ERROR(exchanged);
  WEFT_RETURN_IF_ERROR(made);
  if (color < 0) return std::shared_ptr<ProcessGroup>();
  absl::StatusOr<std::shared_ptr<ProcessGroup>> part =
      JoinPart(color, members, offers[static_cast<size_t>(members[0])], options);
  if (!part.ok() && leads) KeepFailedSplit(offer.offset, members);
  return part;
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::JoinPart(int color,
                                                                  const std::vector<int>& members,
                                                                  const SplitOffer& chosen,
                                                                  const GroupOptions& options) {
  if (chosen.result != WEFT_SUCCESS) {
    return MakeError(WEFT_REMOTE_ERROR, {.rank = members[0], .group = options_.name},
                     fmt::format("splitting group {}: rank {} could not make the shared segment",
                                 options_.name, members[0]));
  }
  NodeState part;
  part.size = static_cast<int>(members.size());
  part.epoch = state_.epoch;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == state_.rank) part.rank = static_cast<int>(i);
    part.peers.push_back(state_.peers[static_cast<size_t>(members[i])]);
    part.world_ranks.push_back(state_.WorldRank(members[i]));
  }
  part.world_name = state_.world_ranks.empty() ? options_.name : state_.world_name;
  GroupOptions named = options;
  if (named.name.empty()) named.name = fmt::format("{}.{}", options_.name, color);
  if (named.timeout_ns <= 0) named.timeout_ns = options_.timeout_ns;
  return JoinSegment(std::move(part), chosen.offset, chosen.group_id, named);
}

}  // namespace weft
