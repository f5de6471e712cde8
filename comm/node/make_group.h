// Making node groups: as threads of one process, from a membership, or from a group that exists.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "comm/group/process_group.h"
#include "comm/node/node_state.h"
#include "comm/node/parts.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"

namespace weft {

// `size` ranks in this process, each to be driven by its own thread.
absl::StatusOr<std::vector<std::shared_ptr<ProcessGroup>>> CreateLocalGroups(
    int size, const GroupOptions& options);

// Why a group was not made that would have been split from no other: its ranks are those of the world.
absl::Status OfFirstGroup(const absl::Status& failure);

// A group of the `size` ranks that meet in `store`. All must be on this machine.
// Collective; TIMEOUT names the missing ranks.
absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeNodeGroup(Store* store, int rank, int size,
                                                            const GroupOptions& options);

// What a rank brings to a meeting: whatever may fail on it alone fails before the others count on it. The socket is where the others
// reach it if it leads them into the group's memory.
struct NodeEntrance {
  std::shared_ptr<NodePeer> self;
  UniqueFd listener;
  std::string socket;  // abstract
};

// For a group of at most `size` ranks.
absl::StatusOr<NodeEntrance> OpenNodeEntrance(int size);

// As what a rank comes to a meeting of a group's ranks.
struct MeetingPlace {
  int rank = 0;
  int size = 2;  // at least 2
  uint32_t epoch = 1;
  int world_rank = 0;
  std::string world_name;            // of the group that this one came from; "": none
  std::vector<int> group_ranks;      // by rank, of an island of a larger group, as NodeState's
  std::vector<GroupMember> watched;  // whose processes are watched from the beginning
  // Asked again and again meanwhile; anything but Ok is why this rank gives up. May be empty.
  std::function<absl::Status()> called_off;
};

// The same, of a group that need not be a first one. Every rank of it has the segment mapped, and is in it, before any returns.
absl::StatusOr<std::shared_ptr<ProcessGroup>> MeetInStore(Store& store, const MeetingPlace& place,
                                                          const GroupOptions& options,
                                                          int64_t deadline_ns);

// The group of ranks that have met already, `members`, which are all on this machine; members[i] is rank i, and the first one's
// socket is that of its entrance. `all_entered` is called when every rank is in it, before it is anybody's; may be empty.
absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterNodeGroup(
    NodeEntrance entrance, const Membership& members, const MeetingPlace& place,
    const GroupOptions& options, int64_t deadline_ns, const std::function<void()>& all_entered);

// Waits until all ranks of a group are at this point. Errors: as of a barrier, also in place of the caller's.
absl::Status AwaitAll(ProcessGroup& group, int64_t deadline_ns);

// When making a group with these options gives up, on MonotonicNs's clock.
int64_t InitDeadlineNs(const GroupOptions& options);

// Completes `state`, whose peers, rank, size and epoch are set, from the segment in rank 0's heap. CORRUPT unless the
// segment has this id.
absl::StatusOr<NodeState> EnterSegment(NodeState state, uint64_t segment_offset, uint64_t group_id,
                                       std::string_view group_name);

// Rank `rank`'s part of a group whose segment is in rank 0's heap; `state.peers`, rank, size and epoch
// are set; `whole` if it is split from another one. CORRUPT unless the segment has this id.
absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinSegment(NodeState state, uint64_t segment_offset,
                                                          uint64_t group_id,
                                                          const GroupOptions& options,
                                                          const Whole& whole = {});

// Allocates and initialises the segment of a new group in this process's heap; returns its offset.
absl::StatusOr<uint64_t> MakeSegment(int size, uint64_t group_id, uint32_t epoch);

}  // namespace weft
