// Two meetings in the store: of all ranks, which says who is on which island, and of those of one island, which become a node group. Each
// island says that it is complete; when all have, they begin. One that began alone would find the others unreachable while they still
// map each other's memory.
#include "comm/hierarchy/make_span.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/later.h"
#include "base/net.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/agent/island_shared_memory.h"
#include "comm/group/progress.h"
#include "comm/node/make_group.h"
#include "comm/rendezvous/fake_nodes.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/prefix_store.h"
#include "fmt/format.h"

namespace weft {
namespace {

class SpanMaking {
 public:
  SpanMaking(Store& store, int rank, int size, const GroupOptions& options,
             const SpanSettings& settings)
      : store_(store),
        rank_(rank),
        size_(size),
        options_(options),
        settings_(settings),
        deadline_ns_(InitDeadlineNs(options)) {}

  absl::StatusOr<SpanCore> Run() {
    WEFT_RETURN_IF_ERROR(Meet());
    WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<const IslandMap> map,
                          MapOf(span_.membership, span_.islands));
    WEFT_RETURN_IF_ERROR(MakeInner());
    absl::Status begun = BeginTogether(map);
    if (!begun.ok()) {
      span_.inner->Close();
      return begun;
    }
    return std::move(span_);
  }

 private:
  int island() const { return span_.islands.island_of[static_cast<size_t>(rank_)]; }

  const std::vector<int>& fellows() const {
    return span_.islands.ranks[static_cast<size_t>(island())];
  }

  bool leads() const { return fellows().front() == rank_; }

  std::string Key(std::string_view what, int number) const {
    return StrCat("weft/group/", options_.name, "/", what, "/", number);
  }

  // Fake nodes talk over loopback, as they are of one machine.
  absl::Status Reserve(GroupMember* self) {
    Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = FirstRoutableAddress()};
    if (self->fake_node >= 0 || endpoint.host.empty()) endpoint.host = "127.0.0.1";
    WEFT_ASSIGN_OR_RETURN(reserved_, ReserveEndpoint(&endpoint));
    self->agent = endpoint.ToString();
    return absl::OkStatus();
  }

  absl::Status Meet() {
    GroupMember self = DescribeSelf(rank_);
    WEFT_ASSIGN_OR_RETURN(self.fake_node, FakeNodeOf(settings_.fake_nodes, rank_, size_));
    WEFT_RETURN_IF_ERROR(Reserve(&self));
    MemberWatch watch(*SystemSeams().proc, self, options_.name);
    WEFT_ASSIGN_OR_RETURN(span_.membership, ExchangeMembership(store_, options_.name, rank_, size_,
                                                               self, deadline_ns_, watch));
    span_.islands = IslandsOf(span_.membership);
    return absl::OkStatus();
  }

  absl::Status MakeInner() {
    PrefixStore own(store_, StrCat(Key("island", island()), "/"));
    const MeetingPlace place{.rank = span_.islands.PlaceOf(rank_),
                             .size = static_cast<int>(fellows().size()),
                             .world_rank = rank_,
                             .group_ranks = fellows()};
    WEFT_ASSIGN_OR_RETURN(span_.inner, MeetInStore(own, place, options_, deadline_ns_));
    return absl::OkStatus();
  }

  absl::Status BeginTogether(const std::shared_ptr<const IslandMap>& map) {
    const int place = span_.islands.PlaceOf(rank_);
    const size_t bytes = IslandSharedMemory::BytesFor(*map, island());
    WEFT_ASSIGN_OR_RETURN(void* const block, span_.inner->AllocateShared(bytes));
    if (place == 0) {
      std::memset(block, 0, bytes);
      WEFT_RETURN_IF_ERROR(AwaitIslands());
    }
    WEFT_RETURN_IF_ERROR(AwaitAll(*span_.inner, deadline_ns_));
    RemoveMembership(store_, options_.name, rank_, size_);
    span_.end = std::make_shared<SpanEnd>(span_.membership.group_id, options_.name, span_.inner,
                                          span_.membership.members);
    const IslandAgentSettings agent{.secret = Secret(), .limit_ns = settings_.limit_ns};
    span_.watch =
        std::make_shared<SpanWatch>(SystemSeams(), agent, map, static_cast<std::byte*>(block),
                                    island(), place, std::move(reserved_));
    WEFT_RETURN_IF_ERROR(span_.watch->Begin());
    span_.watch->Add(span_.end);
    WatchGroup(span_.watch);
    LookSoon();
    return absl::OkStatus();
  }

  // Nobody of another job, or of another group with this name, is taken for an island of this one.
  std::string Secret() const {
    return fmt::format("{}/{:016x}", settings_.secret, span_.membership.group_id);
  }

  absl::Status Ask(StoreRequest::Kind kind, const std::string& key, const std::string& value = "") {
    return store_.Ask({.kind = kind, .key = key, .value = value, .deadline_ns = deadline_ns_})
        .status;
  }

  // One rank of each island says that it is complete, and waits until the first one has seen that all are.
  absl::Status AwaitIslands() {
    using Kind = StoreRequest::Kind;
    WEFT_RETURN_IF_ERROR(Ask(Kind::kSet, Key("complete", island()), "1"));
    if (island() != 0) return Annotate(Ask(Kind::kWait, Key("begin", 0)), Late(0));
    for (int other = 0; other < span_.islands.count(); ++other)
      WEFT_RETURN_IF_ERROR(Annotate(Ask(Kind::kWait, Key("complete", other)), Late(other)));
    return Ask(Kind::kSet, Key("begin", 0), "1");
  }

  std::string Late(int other) const {
    return fmt::format("group {}: the ranks on the node of rank {} have not all made theirs: ",
                       options_.name, span_.islands.ranks[static_cast<size_t>(other)].front());
  }

  Store& store_;
  const int rank_;
  const int size_;
  const GroupOptions& options_;
  const SpanSettings& settings_;
  const int64_t deadline_ns_;
  UniqueFd reserved_;
  SpanCore span_;
};

}  // namespace

absl::StatusOr<SpanCore> MakeSpan(Store& store, int rank, int size, const GroupOptions& options,
                                  const SpanSettings& settings) {
  return SpanMaking(store, rank, size, options, settings).Run();
}

void CloseSpan(SpanCore* span) {
  span->watch->Remove(span->end.get());
  span->watch->Leave();
  UnwatchGroup(span->watch.get());
  span->inner->Close();
}

}  // namespace weft
