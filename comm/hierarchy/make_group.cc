#include "comm/hierarchy/make_group.h"

#include <utility>

#include "base/status.h"
#include "comm/hierarchy/group_meeting.h"
#include "comm/hierarchy/span_group.h"
#include "comm/node/make_group.h"

namespace weft {
namespace {

absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeOfSeveral(Store& store, int rank, int size,
                                                            const GroupOptions& options,
                                                            const GroupPlaces& places) {
  WEFT_ASSIGN_OR_RETURN(GroupMeeting meeting, MeetAll(store, rank, size, options,
                                                      {.fake_nodes = places.fake_nodes,
                                                       .transport = places.transport,
                                                       .streams = places.streams}));
  if (meeting.OnOneMachine()) return EnterTogether(store, std::move(meeting), options);
  return SpanGroup::Make(store, std::move(meeting), options, places.span);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeGroup(Store* store, int rank, int size,
                                                        const GroupOptions& options,
                                                        const GroupPlaces& places) {
  if (size == 1) {
    WEFT_ASSIGN_OR_RETURN(auto groups, CreateLocalGroups(1, options));
    return groups[0];
  }
  absl::StatusOr<std::shared_ptr<ProcessGroup>> made =
      MakeOfSeveral(*store, rank, size, options, places);
  if (!made.ok()) return OfFirstGroup(made.status());
  return made;
}

}  // namespace weft
