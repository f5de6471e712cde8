// How the ranks of a group find out where each of them is, before anything is made of them.
//
//   WEFT_ASSIGN_OR_RETURN(GroupMeeting meeting, MeetAll(store, rank, size, options, {.fake_nodes = "2"}));
//   if (meeting.OnOneMachine()) ...                  // they share memory
//   MakeSpan(store, std::move(meeting), ...)         // they do not
//
// Every rank comes with all that it may need then: its part of the heap, a socket for those who share its memory, addresses for those who do
// not. One exchange in the store is enough for both.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/islands.h"
#include "comm/node/make_group.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"
#include "comm/transport/ucx/ucx_port.h"

namespace weft {

struct GroupMeeting {
  int rank = 0;
  int streams = 1;  // as wished
  int64_t deadline_ns = 0;
  Membership membership;
  Islands islands;
  NodeEntrance entrance;
  UniqueFd agent;                // keeps the address of its agent
  std::vector<UniqueFd> data;    // and those for data, by rail
  absl::Status addresses;        // why there are none
  std::unique_ptr<UcxPort> ucx;  // nullptr: it has none

  // All ranks can share memory: whatever pid namespaces they are in, they reach each other's sockets and are of one user.
  bool OnOneMachine() const;

  int size() const { return static_cast<int>(membership.members.size()); }

  int island() const { return islands.island_of[static_cast<size_t>(rank)]; }

  // The ranks of this one's island.
  const std::vector<int>& fellows() const { return islands.ranks[static_cast<size_t>(island())]; }
};

struct MeetingWishes {
  std::string fake_nodes;  // fake_nodes.h
  std::string transport;   // transport_choice.h
  int streams = 1;         // of each rail, where TCP is taken
};

// Collective over `size` ranks, at least 2, that meet in `store`. Errors: as ExchangeMembership's; INVALID_ARGUMENT for fake nodes that do
// not fit, and for a transport that there is not.
absl::StatusOr<GroupMeeting> MeetAll(Store& store, int rank, int size, const GroupOptions& options,
                                     const MeetingWishes& wishes);

// Makes the node group of all ranks, which are on one machine.
absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterTogether(Store& store, GroupMeeting meeting,
                                                            const GroupOptions& options);

// Makes the node group of the ranks of this one's island.
absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterIsland(GroupMeeting* meeting,
                                                          const GroupOptions& options);

}  // namespace weft
