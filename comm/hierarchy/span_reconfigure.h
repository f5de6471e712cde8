// Making the group anew of the ranks that live, where they are on several islands.
//
//   SpanReconfigure making(membership, members, options, inherited);
//   WEFT_ASSIGN_OR_RETURN(SpanReconfigure::Cut cut, making.Agree(core));     // all that live; from here on the old group is over
//   WEFT_ASSIGN_OR_RETURN(SpanPart next, making.Remake(core, cut));
//   ... a group of them
//   WEFT_ASSIGN_OR_RETURN(std::vector<int> wanted, making.Vote(*group, next.core));
//   if (making.IsOther(wanted, *group)) ... making.Remake(next.core, making.Narrow(next.core, wanted))
//
// Who lives and can be reached the islands agree on (comm/agent/island_agreement.h). Each then makes its ranks' group anew, in its own memory
// (comm/node/reconfigure.h), and that is all: the links, and the watch, stay (span_links.h), so nobody meets in a store, which may be gone. The
// group of all that live then votes on the list that each was called with. If that is another list, the group is cut down to it in the same
// way; the others leave.
//
// A rank that dies when the islands have agreed is a member: its island makes its part of the group without it, as far as that goes, and fails it
// at once. So the vote ends by its loss on all ranks, and they begin again.
//
// Thread-safety: as ProcessGroup::Reconfigure; one at a time of a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/make_span.h"
#include "comm/hierarchy/span_split.h"

namespace weft {

class SpanReconfigure {
 public:
  // `members`: ranks of `first`, which is not used but for who they are; none: all that live. With the name and timeouts that
  // `options` has, or `inherited`.
  SpanReconfigure(const Membership& first, std::vector<int> members, const GroupOptions& options,
                  const GroupOptions& inherited);

  // UNSUPPORTED if it asks for what cannot be had over several nodes.
  static absl::Status Check(const SpanCore& core, const std::vector<int>& members,
                            const std::string& name);

  // A group that is to be made: ranks of the one before, in their new order.
  struct Cut {
    std::vector<int> wanted;
    uint64_t group_id = 0;
    uint32_t epoch = 1;
  };

  // Collective over the ranks that live: these. Ends with an error, and `old` as it was, if the islands do not agree: TIMEOUT names a rank that has
  // not called, NO_QUORUM says that too few can be reached, or that the others have gone on without this rank's node.
  absl::StatusOr<Cut> Agree(const SpanCore& old) const;

  // Collective over the ranks of the cut, and those of their islands. `old` is used no more, but for its island's group, of which the next one
  // is made. A rank that is not wanted gets no group: neither a core nor one on one island.
  absl::StatusOr<SpanPart> Remake(const SpanCore& old, const Cut& cut) const;

  // Collective over the group that was made of all that live, `core`: its ranks in the order that was asked for. MISMATCH, PEER_LOST of a
  // listed rank; and what the group ends by.
  absl::StatusOr<std::vector<int>> Vote(ProcessGroup& group, const SpanCore& core) const;

  // Whether those are others than all in their order.
  static bool IsOther(const std::vector<int>& wanted, const ProcessGroup& group);

  // That group cut down to `wanted`.
  static Cut Narrow(const SpanCore& core, const std::vector<int>& wanted);

  // After a group of those that live has ended like that: another rank is gone, and there is time.
  bool MayTryAgain(const absl::Status& status) const;

 private:
  absl::Status MakeInner(const SpanCore& old, const Cut& cut, SpanCore* core,
                         absl::Status* ended) const;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeHome(const Cut& cut, SpanCore* core) const;
  GroupOptions InnerOptions(uint32_t epoch) const;
  std::string Heading() const;

  const Membership first_;
  const std::vector<int> members_;
  GroupOptions options_;
  int64_t deadline_ns_ = 0;
};

}  // namespace weft
