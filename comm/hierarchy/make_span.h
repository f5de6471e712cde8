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
#include "comm/engine/sent_traffic.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/foreign_schedules.h"
#include "comm/hierarchy/group_meeting.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_net.h"
#include "comm/hierarchy/span_records.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"
#include "comm/select/link_model.h"

namespace weft {

// As long as WEFT_PROBE measures, at most.
constexpr int64_t kProbeNs = 500'000'000;

struct SpanSettings {
  int64_t limit_ns = IslandAgentSettings{}.limit_ns;  // until an island is unreachable
  std::string schedule_files = {};                    // of foreign_schedules.h
  int64_t probe_ns = 0;  // to measure links in, at most, if rank 0 says so; 0: they are not
};

struct SpanCore {
  Membership membership;
  Islands islands;
  std::shared_ptr<ProcessGroup> inner;  // of the ranks of this island
  std::shared_ptr<SpanEnd> end;
  std::shared_ptr<SpanNet> net;
  std::shared_ptr<SpanRecords> records;  // what this island's ranks show each other
  std::vector<int> peers;                // in the transport, by rank
  std::shared_ptr<const ForeignSchedules> foreign;
  std::shared_ptr<SentTraffic> traffic;    // of the group that it is
  LinkModel links = LinkModel::Default();  // by which schedules are chosen; all ranks have the same
  uint32_t epoch = 1;                      // of the membership that it is made of
  bool of_all = false;                     // all ranks of the net are in it
  uint64_t parent_id = 0;                  // of the group that it was split from; 0: none
  int parent_rank = -1;                    // this rank's there
};

// Collective over the ranks of a meeting in `store`. Errors: as MakeNodeGroup's; TIMEOUT names an island that has not come.
// ForeignSchedules::Read's where the user's schedules are no good; MISMATCH if ranks have different ones.
absl::StatusOr<SpanCore> MakeSpan(Store& store, GroupMeeting meeting, const GroupOptions& options,
                                  const SpanSettings& settings);

// Of a group whose ranks of this island are `inner`: memory for what they show each other. Collective over these. `ranks`: their numbers in
// the group; `place`: this one's among them.
absl::StatusOr<std::shared_ptr<SpanRecords>> MakeRecords(ProcessGroup& inner,
                                                         const std::vector<int>& ranks, int place);

// This rank leaves. `goes_on`: not it, but the group is over, and another one is made of its island's group, which stays.
void CloseSpan(SpanCore* span, bool goes_on = false);

}  // namespace weft
