// Making a group whose ranks are on several islands, as far as its ends go: the islands, the group of this one's ranks, and what
// tells the islands of each other.
//
//   WEFT_ASSIGN_OR_RETURN(GroupMeeting meeting, MeetAll(store, rank, size, options, wishes));
//   WEFT_ASSIGN_OR_RETURN(SpanCore span, MakeSpan(store, std::move(meeting), options, {}));
//   span.inner->Run(...)                                       // among the ranks of this island
//   if (absl::Status cause = span.net->watch().Cause(*span.end); !cause.ok()) ...
//   CloseSpan(&span);
//
// Nobody has the group before the ranks of all islands have theirs, so islands begin to listen for each other together.
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/group_meeting.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_net.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"

namespace weft {

struct SpanSettings {
  int64_t limit_ns = IslandAgentSettings{}.limit_ns;  // until an island is unreachable
};

struct SpanCore {
  Membership membership;
  Islands islands;
  std::shared_ptr<ProcessGroup> inner;  // of the ranks of this island
  std::shared_ptr<SpanEnd> end;
  std::shared_ptr<SpanNet> net;
  std::vector<int> peers;  // in the transport, by rank
  bool of_all = false;     // all ranks of the net are in it
};

// Collective over the ranks of a meeting in `store`. Errors: as MakeNodeGroup's; TIMEOUT names an island that has not come.
absl::StatusOr<SpanCore> MakeSpan(Store& store, GroupMeeting meeting, const GroupOptions& options,
                                  const SpanSettings& settings);

// This rank leaves.
void CloseSpan(SpanCore* span);

}  // namespace weft
