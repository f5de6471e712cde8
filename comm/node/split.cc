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

struct Offer {
  int32_t result;  // weft_result_t of making the segment
  uint32_t unused;
  uint64_t offset;
  uint64_t group_id;
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
absl::Status Exchange(NodeGroup& parent, const T& mine, std::vector<T>* all) {
  all->resize(static_cast<size_t>(parent.size()));
  Collective gather{.kind = OpKind::kAllGather, .count = sizeof(T)};
  gather.in = &mine;
  gather.out = all->data();
  return parent.Run(gather);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> NodeGroup::Split(int color, int key,
                                                               const GroupOptions& options) {
  std::vector<Wish> wishes;
  WEFT_RETURN_IF_ERROR(Exchange(*this, Wish{color, key}, &wishes));
  const std::vector<int> members = MembersOf(wishes, color);
  const bool leads = color >= 0 && members[0] == state_.rank;

  Offer offer{};
  absl::Status made;
  if (leads) {
    offer.group_id = RecorderTicks() ^ (uint64_t{static_cast<uint32_t>(issued_)} << 40) ^
                     static_cast<uint64_t>(state_.rank);
    absl::StatusOr<uint64_t> offset =
        MakeSegment(static_cast<int>(members.size()), offer.group_id, state_.epoch);
    if (offset.ok()) {
      offer.offset = *offset;
    } else {
      made = offset.status();
      offer.result = ResultOf(made);
    }
  }
  std::vector<Offer> offers;
  WEFT_RETURN_IF_ERROR(Exchange(*this, offer, &offers));
  WEFT_RETURN_IF_ERROR(made);
  if (color < 0) return std::shared_ptr<ProcessGroup>();

  const Offer& chosen = offers[static_cast<size_t>(members[0])];
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
  }
  GroupOptions named = options;
  if (named.name.empty()) named.name = fmt::format("{}.{}", options_.name, color);
  if (named.timeout_ns <= 0) named.timeout_ns = options_.timeout_ns;
  return JoinSegment(std::move(part), chosen.offset, chosen.group_id, named);
}

}  // namespace weft
