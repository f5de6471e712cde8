// A group comes to be in an order that lets every rank give up at any step without harm to the others: what may fail here
// alone is done first (the heap, the kernels), nobody touches the segment before all have mapped it, and rank 0 frees it
// if it gives up before a group owns it. The last step is a barrier of the group itself, so who returns knows that all
// others are inside.
#include "comm/node/make_group.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include <sys/random.h>

#include "base/allocator.h"
#include "base/later.h"
#include "base/options.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/attach.h"
#include "comm/node/deferred_reclamation.h"
#include "comm/node/entrants.h"
#include "comm/node/heap.h"
#include "comm/node/node_group.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/membership.h"
#include "comm/select/load_model.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::StatusOr<uint64_t> RandomId() {
  uint64_t id = 0;
  if (getrandom(&id, sizeof(id), 0) == static_cast<ssize_t>(sizeof(id))) return id;
  return SystemError(errno, "making a group: getrandom");
}

absl::Status CheckSize(int size) {
  if (size >= 1 && size <= kNodeRanksMax) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED,
                   fmt::format("a group of {} ranks on one node: this version has "
                               "1 to {}",
                               size, kNodeRanksMax));
}

// Frees a segment unless it was handed on.
class SegmentGuard {
 public:
  explicit SegmentGuard(char* base) : base_(base) {}

  SegmentGuard(const SegmentGuard&) = delete;
  SegmentGuard& operator=(const SegmentGuard&) = delete;

  ~SegmentGuard() {
    if (base_ != nullptr) (void)ProcessHeap().Free(base_);
  }

  void Release() { base_ = nullptr; }

 private:
  char* base_;
};

}  // namespace

int64_t InitDeadlineNs(const GroupOptions& options) {
  return Later(MonotonicNs(), TimeoutOrDefault(options.making_timeout_ns()));
}

absl::StatusOr<uint64_t> MakeSegment(int size, uint64_t group_id, uint32_t epoch) {
  const Tuning tuning = ProcessTuning(size);
  WEFT_ASSIGN_OR_RETURN(void* const block,
                        ProcessHeap().Allocate(Segment::Bytes(size, tuning.combine != 0)));
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<NodePeer> self, NodePeer::Self());
  Segment::Create(static_cast<char*>(block), size, group_id, epoch, tuning);
  return static_cast<uint64_t>(static_cast<char*>(block) - self->base());
}

absl::StatusOr<NodeState> EnterSegment(NodeState state, uint64_t segment_offset, uint64_t group_id,
                                       std::string_view group_name) {
  const auto find = [&](bool with_counter) {
    return state.peers[0]->At(segment_offset, Segment::Bytes(state.size, with_counter));
  };
  char* const base = find(false);
  state.segment = Segment(base, state.size);
  const bool valid = base != nullptr && state.segment.Valid(group_id, state.epoch);
  if (valid)
    state.tuning = state.segment.header().tuning;  // a copy: what is checked is what is used
  if (!valid || (state.tuning.combine != 0 && find(true) == nullptr)) {
    return MakeError(WEFT_CORRUPT, {.rank = 0, .group = std::string(group_name)},
                     fmt::format("joining group {}: what rank 0 shares is not this group's segment",
                                 group_name));
  }
  WEFT_RETURN_IF_ERROR(
      Annotate(Validate(state.tuning, state.size), StrCat("joining group ", group_name, ": ")));
  state.own = &state.segment.control(state.rank);
  state.board = state.segment.board();
  state.recorder = state.segment.recorder(state.rank);
  state.lifecycle = state.segment.lifecycle(state.rank);
  WEFT_ASSIGN_OR_RETURN(state.isa, SelectIsa());
  state.single_copy = GetOptions().single_copy;
  state.reads_peers = state.single_copy && std::all_of(state.peers.begin(), state.peers.end(),
                                                       [](const std::shared_ptr<NodePeer>& peer) {
                                                         return peer->readable();
                                                       });
  const bool maps_files =
      std::all_of(state.peers.begin(), state.peers.end(),
                  [](const std::shared_ptr<NodePeer>& peer) { return peer->maps_files(); });
  state.self().maps_files.store(maps_files ? 1 : 0, std::memory_order_relaxed);
  state.stream_copy = FindStreamCopy(state.isa);
  state.stores = AdaptiveCopy(state.stream_copy, state.tuning.stream_stage != 0);
  state.known_done.assign(static_cast<size_t>(state.size), 0);
  state.slots = Slots(state.size == kPingPongRanks && state.tuning.combine == 0);
  return state;
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinSegment(NodeState state, uint64_t segment_offset,
                                                          uint64_t group_id,
                                                          const GroupOptions& options,
                                                          const Whole& whole) {
  FixAllocator();
  WEFT_ASSIGN_OR_RETURN(state,
                        EnterSegment(std::move(state), segment_offset, group_id, options.name));
  const auto group = std::make_shared<NodeGroup>(std::move(state), options);
  group->BeWatched(whole);
  return std::shared_ptr<ProcessGroup>(group);
}

absl::StatusOr<std::vector<std::shared_ptr<ProcessGroup>>> CreateLocalGroups(
    int size, const GroupOptions& options) {
  WEFT_RETURN_IF_ERROR(CheckSize(size));
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<NodePeer> self, NodePeer::Self());
  ReclaimDeferred();  // not in a forked child, which Self() has told off
  WEFT_ASSIGN_OR_RETURN(const uint64_t group_id, RandomId());
  WEFT_ASSIGN_OR_RETURN(const uint64_t offset, MakeSegment(size, group_id, 1));
  SegmentGuard guard(self->base() + offset);
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    NodeState state;
    state.rank = rank;
    state.size = size;
    state.peers.assign(static_cast<size_t>(size), self);
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group,
                          JoinSegment(std::move(state), offset, group_id, options));
    guard.Release();  // rank 0's group frees it from here on
    groups.push_back(std::move(group));
  }
  return groups;
}

namespace {

absl::Status CheckOneMachine(const Membership& membership, const GroupMember& self,
                             const std::string& group) {
  for (const GroupMember& member : membership.members) {
    if (member.boot_id == self.boot_id) continue;
    return MakeError(
        WEFT_UNSUPPORTED, {.rank = member.rank, .host = member.host},
        fmt::format(
            "group {}: rank {} is on host {}, rank {} on host {}; here all ranks must be on "
            "one machine",
            group, member.rank, member.host, self.rank, self.host));
  }
  return absl::OkStatus();
}

// Of a rank whose group has come from another one, all of whose ranks may have had other numbers.
void SetWorld(const Membership& membership, const std::string& world_name, NodeState* state) {
  bool renumbered = false;
  for (const GroupMember& member : membership.members) {
    state->world_ranks.push_back(member.world_rank);
    renumbered = renumbered || member.world_rank != member.rank;
  }
  if (!renumbered) state->world_ranks.clear();
  state->world_name = world_name;
}

}  // namespace

absl::Status AwaitAll(ProcessGroup& group, int64_t deadline_ns) {
  Collective barrier{.kind = OpKind::kBarrier};
  barrier.timeout_ns = std::max<int64_t>(1, deadline_ns - MonotonicNs());
  return group.Run(barrier);
}

absl::StatusOr<NodeEntrance> OpenNodeEntrance(int size) {
  NodeEntrance entrance;
  WEFT_ASSIGN_OR_RETURN(entrance.self, NodePeer::Self(size));
  ReclaimDeferred();
  WEFT_RETURN_IF_ERROR(SelectIsa().status());
  WEFT_ASSIGN_OR_RETURN(const uint64_t nonce, RandomId());
  entrance.socket = fmt::format("weft-node-{:016x}", nonce);
  WEFT_ASSIGN_OR_RETURN(entrance.listener, ListenForAttach(entrance.socket));
  return entrance;
}

namespace {

// Maps what the others share and enters the group, in which all are then.
absl::StatusOr<std::shared_ptr<ProcessGroup>> Enter(NodeEntrance entrance,
                                                    const Membership& membership,
                                                    const MeetingPlace& place,
                                                    const GroupOptions& options,
                                                    int64_t deadline_ns, MemberWatch& watch,
                                                    const std::function<void()>& all_entered) {
  const int rank = place.rank;
  for (const GroupMember& member : membership.members)
    watch.Add(member);
  const AttachRequest request{.group_id = membership.group_id,
                              .group_name = options.name,
                              .rank = rank,
                              .size = place.size,
                              .leader_socket = membership.members[0].node_socket,
                              .deadline_ns = deadline_ns,
                              .watch = &watch};
  Attachment attachment;
  uint64_t offset = 0;
  std::optional<SegmentGuard> guard;
  std::shared_ptr<Entrants> entrants;
  if (rank == 0) {
    WEFT_ASSIGN_OR_RETURN(offset, MakeSegment(place.size, membership.group_id, place.epoch));
    guard.emplace(entrance.self->base() + offset);
    WEFT_ASSIGN_OR_RETURN(attachment,
                          ServeAttach(request, entrance.listener, entrance.self, offset));
    entrants = std::make_shared<Entrants>(Segment(entrance.self->base() + offset, place.size),
                                          attachment.peers, std::move(attachment.connections));
  } else {
    entrance.listener.Reset();
    WEFT_ASSIGN_OR_RETURN(attachment, Attach(request, entrance.self));
  }
  NodeState state;
  state.rank = rank;
  state.size = place.size;
  state.epoch = place.epoch;
  state.peers = std::move(attachment.peers);
  state.entrants = entrants;
  SetWorld(membership, place.world_name, &state);
  state.group_ranks = place.group_ranks;
  WEFT_ASSIGN_OR_RETURN(
      std::shared_ptr<ProcessGroup> group,
      JoinSegment(std::move(state), attachment.segment_offset, membership.group_id, options));
  if (guard) guard->Release();
  attachment.connections.clear();  // this rank has entered
  absl::Status joined;
  if (entrants != nullptr) joined = entrants->Await(deadline_ns);
  if (joined.ok()) {
    if (all_entered) all_entered();
    // Nobody has the group before all have mapped everything.
    joined = AwaitAll(*group, deadline_ns);
  }
  if (joined.ok()) {
    if (entrants != nullptr) entrants->Look();  // all have entered: their connections end
    return group;
  }
  group->Close();
  return Annotate(joined, "making the group: ");
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> EnterNodeGroup(
    NodeEntrance entrance, const Membership& members, const MeetingPlace& place,
    const GroupOptions& options, int64_t deadline_ns, const std::function<void()>& all_entered) {
  WEFT_RETURN_IF_ERROR(CheckSize(place.size));
  MemberWatch watch(*SystemSeams().proc, members.members[static_cast<size_t>(place.rank)],
                    options.name);
  return Enter(std::move(entrance), members, place, options, deadline_ns, watch, all_entered);
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> MeetInStore(Store& store, const MeetingPlace& place,
                                                          const GroupOptions& options,
                                                          int64_t deadline_ns) {
  const int rank = place.rank;
  const int size = place.size;
  WEFT_ASSIGN_OR_RETURN(NodeEntrance entrance, OpenNodeEntrance(size));
  GroupMember self = DescribeSelf(rank);
  self.world_rank = place.world_rank;
  self.node_socket = entrance.socket;
  MemberWatch watch(*SystemSeams().proc, self, options.name);
  for (const GroupMember& member : place.watched)
    watch.Add(member);
  if (place.called_off) watch.AlsoAsk(place.called_off);
  WEFT_ASSIGN_OR_RETURN(
      const Membership membership,
      ExchangeMembership(store, options.name, rank, size, self, deadline_ns, watch));
  WEFT_RETURN_IF_ERROR(CheckOneMachine(membership, self, options.name));
  // All ranks have attached when they have entered, so none will read the store again; and none has the group before the others have
  // cleared it.
  return Enter(std::move(entrance), membership, place, options, deadline_ns, watch,
               [&] { RemoveMembership(store, options.name, rank, size); });
}

namespace {

absl::StatusOr<std::shared_ptr<ProcessGroup>> TryMakeNodeGroup(Store* store, int rank, int size,
                                                               const GroupOptions& options) {
  WEFT_RETURN_IF_ERROR(CheckSize(size));
  if (size == 1) {
    WEFT_ASSIGN_OR_RETURN(auto groups, CreateLocalGroups(1, options));
    return groups[0];
  }
  return MeetInStore(*store, {.rank = rank, .size = size, .world_rank = rank}, options,
                     InitDeadlineNs(options));
}

}  // namespace

absl::Status OfFirstGroup(const absl::Status& failure) {
  ErrorFields fields = FieldsOf(failure);
  fields.world_rank = fields.rank;
  return MakeError(ResultOf(failure), fields, FromAbsl(failure.message()));
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeNodeGroup(Store* store, int rank, int size,
                                                            const GroupOptions& options) {
  absl::StatusOr<std::shared_ptr<ProcessGroup>> made = TryMakeNodeGroup(store, rank, size, options);
  if (!made.ok()) return OfFirstGroup(made.status());
  return made;
}

}  // namespace weft
