#include "comm/hierarchy/group_meeting.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/interfaces.h"
#include "base/net.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "comm/hierarchy/transport_choice.h"
#include "comm/rendezvous/fake_nodes.h"
#include "comm/rendezvous/job_secret.h"
#include "comm/rendezvous/member_watch.h"

namespace weft {
namespace {

// Fake nodes talk over loopback, as they are of one machine.
absl::Status Reserve(GroupMeeting* meeting, GroupMember* self) {
  OwnAddresses own{.choice = "loopback, for fake nodes"};
  if (self->fake_node < 0) {
    WEFT_ASSIGN_OR_RETURN(own, AddressesForOthers());
  }
  if (own.rails.empty()) own.rails.push_back("127.0.0.1");
  self->choice = own.choice;
  const auto reserve = [&](const std::string& host,
                           std::string* place) -> absl::StatusOr<UniqueFd> {
    Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = host};
    absl::StatusOr<UniqueFd> fd = ReserveEndpoint(&endpoint);
    *place = endpoint.ToString();
    if (!fd.ok()) return Annotate(fd.status(), StrCat(own.choice, ": "));
    return fd;
  };
  WEFT_ASSIGN_OR_RETURN(meeting->agent, reserve(own.rails.front(), &self->agent));
  for (const std::string& address : own.rails) {
    WEFT_ASSIGN_OR_RETURN(meeting->data.emplace_back(),
                          reserve(address, &self->data.emplace_back()));
  }
  return absl::OkStatus();
}

// `place` as this machine reaches it, whose own is `own`.
std::string ByOwnLink(const std::string& place, const std::string& own) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(place);
  const absl::StatusOr<Endpoint> mine = ParseEndpoint(own);
  if (!endpoint.ok() || !mine.ok()) return place;
  endpoint->host = OnOwnLink(endpoint->host, mine->host);
  return endpoint->ToString();
}

// A link-local address has the interface of the machine that it is of: here it is reached by the one of the same rail.
void ReachByOwnLinks(int rank, std::vector<GroupMember>* members) {
  const GroupMember self = (*members)[static_cast<size_t>(rank)];
  for (GroupMember& member : *members) {
    member.agent = ByOwnLink(member.agent, self.agent);
    for (size_t rail = 0; rail < std::min(member.data.size(), self.data.size()); ++rail)
      member.data[rail] = ByOwnLink(member.data[rail], self.data[rail]);
  }
}

}  // namespace

bool GroupMeeting::OnOneMachine() const {
  const GroupMember& first = membership.members.front();
  return std::all_of(membership.members.begin(), membership.members.end(),
                     [&](const GroupMember& member) {
                       return member.boot_id == first.boot_id && member.uid == first.uid &&
                              member.network_namespace == first.network_namespace &&
                              member.fake_node == first.fake_node;
                     });
}

absl::StatusOr<GroupMeeting> MeetAll(Store& store, int rank, int size, const GroupOptions& options,
                                     const MeetingWishes& wishes) {
  GroupMeeting meeting{
      .rank = rank, .streams = wishes.streams, .deadline_ns = InitDeadlineNs(options)};
  GroupMember self = DescribeSelf(rank);
  WEFT_ASSIGN_OR_RETURN(self.fake_node, FakeNodeOf(wishes.fake_nodes, rank, size));
  WEFT_ASSIGN_OR_RETURN(meeting.entrance, OpenNodeEntrance(size));
  self.node_socket = meeting.entrance.socket;
  WEFT_ASSIGN_OR_RETURN(self.link_secret, MakeJobSecret());
  // Ranks of one machine need no network.
  meeting.addresses = Reserve(&meeting, &self);
  WEFT_ASSIGN_OR_RETURN(meeting.ucx, OfferTransports(wishes.transport, &self));
  MemberWatch watch(*SystemSeams().proc, self, options.name);
  WEFT_ASSIGN_OR_RETURN(meeting.membership, ExchangeMembership(store, options.name, rank, size,
                                                               self, meeting.deadline_ns, watch));
  ReachByOwnLinks(rank, &meeting.membership.members);
  meeting.islands = IslandsOf(meeting.membership);
  return meeting;
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterTogether(Store& store, GroupMeeting meeting,
                                                            const GroupOptions& options) {
  meeting.agent.Reset();
  meeting.data.clear();
  meeting.ucx.reset();
  const int size = meeting.size();
  // Whoever has entered reads the store no more; and none has the group before the others have cleared it.
  return EnterNodeGroup(std::move(meeting.entrance), meeting.membership,
                        {.rank = meeting.rank, .size = size, .world_rank = meeting.rank}, options,
                        meeting.deadline_ns,
                        [&] { RemoveMembership(store, options.name, meeting.rank, size); });
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterIsland(GroupMeeting* meeting,
                                                          const GroupOptions& options) {
  const std::vector<int>& fellows = meeting->fellows();
  NumberHash id;
  id.Add(meeting->membership.group_id);
  id.Add(static_cast<uint64_t>(meeting->island()));
  const Membership island{.group_id = id.Get(),
                          .members = Renumbered(meeting->membership.members, fellows)};
  const int size = static_cast<int>(fellows.size());
  return EnterNodeGroup(std::move(meeting->entrance), island,
                        {.rank = meeting->islands.PlaceOf(meeting->rank),
                         .size = size,
                         .world_rank = meeting->rank,
                         .group_ranks = fellows},
                        options, meeting->deadline_ns, nullptr);
}

}  // namespace weft
