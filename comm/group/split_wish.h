// What the ranks of a group tell each other when it is split, by small collectives of the group itself.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<int> members, AgreeOnMembers(parent, color, key, options));
//   std::vector<Offer> offers;
//   WEFT_RETURN_IF_ERROR(ExchangeForSplit(parent, options, kSplitOfferSalt, offer, &offers));
//
// All ranks of the parent go through both exchanges whatever happens to one of them, and what a rank could not do is said in its offer:
// only then is it sure that nobody waits in the parent for one that has given up.
// Thread-safety: as the parent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft {

// Collective::purpose of the two exchanges: no call of a user's is taken for one.
constexpr uint32_t kSplitWishSalt = 0x73706c77;
constexpr uint32_t kSplitOfferSalt = 0x73706c6f;

// `mine` of all ranks of the parent, by rank.
template <typename T>
absl::Status ExchangeForSplit(ProcessGroup& parent, const GroupOptions& options,
                              uint32_t signature_salt, const T& mine, std::vector<T>* all) {
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

// Parent ranks of the caller's color, in the order of the new group: by key, then by rank.
absl::StatusOr<std::vector<int>> AgreeOnMembers(ProcessGroup& parent, int color, int key,
                                                const GroupOptions& options);

// With the name and timeout that a part has by default.
GroupOptions OptionsOfPart(const GroupOptions& options, const GroupOptions& parent, int color);

}  // namespace weft
