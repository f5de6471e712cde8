// All ranks have met, and those of an island become a node group, which needs the store no more. Each island says that it is complete; when all have, they begin. One that began alone would find the others unreachable while they still
// map each other's memory.
#include "comm/hierarchy/make_span.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/agent/island_shared_memory.h"
#include "comm/group/number_hash.h"
#include "comm/group/progress.h"
#include "comm/hierarchy/descriptor_room.h"
#include "comm/hierarchy/link_probe.h"
#include "comm/hierarchy/link_word.h"
#include "comm/hierarchy/schedule_word.h"
#include "comm/hierarchy/transport_choice.h"
#include "comm/node/make_group.h"
#include "comm/rendezvous/roll_call.h"
#include "comm/transport/routed_transport.h"
#include "comm/transport/shared_memory_transport.h"
#include "comm/transport/tcp_transport.h"
#include "comm/transport/ucx/ucx_transport.h"
#include "fmt/format.h"

namespace weft {

namespace {

// For the word of whoever judges to come.
constexpr int64_t kGraceNs = 2'000'000'000;
// Between two looks at whether something is to be said, or this rank is to give up.
constexpr int64_t kSliceNs = 200'000'000;
// Words follow each other, each with as much more time: that all are there, what an island has measured, what all have, what an island hears.
constexpr int64_t kMeasuredGraceNs = 2 * kGraceNs;
constexpr int64_t kLinksGraceNs = 3 * kGraceNs;
constexpr int64_t kHeardGraceNs = 4 * kGraceNs;
// Of the time in which links are measured, so that three ranks in a row can ask one after the other.
constexpr int64_t kProbeParts = 4;
constexpr int64_t kProbeMaxNs = 60'000'000'000;
constexpr uint64_t kProbeSalt = 0x70726f6265;
// What the first rank says if all have come and links are to be measured: this, and in how many nanoseconds.
constexpr std::string_view kProbeWord = "probe ";

class SpanMaking {
 public:
  SpanMaking(Store& store, GroupMeeting meeting, const GroupOptions& options,
             const SpanSettings& settings)
      : store_(store),
        meeting_(std::move(meeting)),
        options_(options),
        settings_(settings),
        rank_(meeting_.rank),
        size_(meeting_.size()),
        deadline_ns_(meeting_.deadline_ns) {}

  absl::StatusOr<SpanCore> Run() {
    WEFT_RETURN_IF_ERROR(Annotate(meeting_.addresses, "this rank cannot be reached over TCP: "));
    span_.membership = meeting_.membership;
    span_.islands = meeting_.islands;
    WEFT_ASSIGN_OR_RETURN(over_ucx_, AgreeOnUcx(span_.membership, options_.name));
    WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<const IslandMap> map,
                          MapOf(span_.membership, span_.islands));
    absl::StatusOr<ForeignSchedules> foreign = ForeignSchedules::Read(settings_.schedule_files);
    WEFT_ASSIGN_OR_RETURN(span_.inner, EnterIsland(&meeting_, options_));
    // The deadline of operations may be short, and these are about making the group.
    span_.inner->SetTimeout(options_.making_timeout_ns());
    schedules_ = WordOf(rank_, foreign);
    const absl::Status read = foreign.status();
    if (read.ok()) span_.foreign = std::make_shared<ForeignSchedules>(*std::move(foreign));
    absl::Status begun = BeginTogether(map);
    if (!begun.ok()) {
      span_.inner->Fail(begun);
      if (home_ != nullptr) home_->Close();
      span_.inner->Close();
      return read.ok() ? begun : read;
    }
    return std::move(span_);
  }

 private:
  int island() const { return meeting_.island(); }

  absl::Status BeginTogether(const std::shared_ptr<const IslandMap>& map) {
    const int place = span_.islands.PlaceOf(rank_);
    const size_t bytes = SpanWatch::BytesFor(*map, island());
    GroupOptions of_home = options_;
    of_home.group_ranks = meeting_.fellows();
    of_home.timeout_ns = options_.making_timeout_ns();
    WEFT_ASSIGN_OR_RETURN(home_, span_.inner->Split(0, place, of_home));
    // Cleared before the calls that follow, which all ranks of the island take part in: nobody reads it sooner.
    WEFT_ASSIGN_OR_RETURN(void* const block, home_->AllocateShared(bytes));
    if (place == 0) std::memset(block, 0, bytes);
    WEFT_RETURN_IF_ERROR(MakeRings(place));
    WEFT_ASSIGN_OR_RETURN(span_.records, MakeRecords(*span_.inner, meeting_.fellows(), place));
    const IslandAgentSettings agent{.secret = Secret(), .limit_ns = settings_.limit_ns};
    const auto watch =
        std::make_shared<SpanWatch>(SystemSeams(), agent, map, static_cast<std::byte*>(block),
                                    island(), place, std::move(meeting_.agent));
    // All that may fail here alone comes before the others count on this rank.
    WEFT_RETURN_IF_ERROR(PrepareProgress());
    WEFT_RETURN_IF_ERROR(watch->Begin());
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, MakeTransport());
    if (place == 0) WarnOfDescriptors();
    const uint64_t group_id = span_.membership.group_id;
    const auto& members = span_.membership.members;
    const auto home_end = std::make_shared<SpanEnd>(~group_id, options_.name, home_, members);
    span_.end = std::make_shared<SpanEnd>(group_id, options_.name, span_.inner, members,
                                          span_.records, watch.get());
    watch->Add(home_end, SpanWatch::Kind::kHome);
    watch->Add(span_.end, SpanWatch::Kind::kFirst);
    span_.of_all = true;
    span_.peers.resize(members.size());
    std::iota(span_.peers.begin(), span_.peers.end(), 0);
    WEFT_RETURN_IF_ERROR(HearIsland(*span_.inner, meeting_.fellows(), deadline_ns_, &schedules_));
    if (place == 0) {
      WEFT_RETURN_IF_ERROR(AwaitIslands());
      if (probe_ns_ > 0) WEFT_RETURN_IF_ERROR(MeasureLinks(*transport));
    }
    // Until the first one has seen that all are there; what it knows comes along.
    WEFT_RETURN_IF_ERROR(HearLinks(*span_.inner, Later(deadline_ns_, kHeardGraceNs), &span_.links));
    RemoveMembership(store_, options_.name, rank_, size_);
    if (place == 0) RemoveKeys();
    const auto links =
        std::make_shared<SpanLinks>(home_, home_end, watch, std::move(transport), members, rank_);
    span_.net = std::make_shared<SpanNet>(links, home_, home_end);
    links->Begin();
    home_->SetTimeout(options_.timeout_ns);
    span_.inner->SetTimeout(options_.timeout_ns);
    return absl::OkStatus();
  }

  // Memory for what the island's ranks say to each other. Who comes out of the next collective call finds it cleared.
  absl::Status MakeRings(int place) {
    const auto size = static_cast<int>(meeting_.fellows().size());
    if (size == 1 || size > SharedMemoryTransport::kRanksMax) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(void* const memory,
                          home_->AllocateShared(SharedMemoryTransport::BytesFor(size)));
    rings_ = static_cast<std::byte*>(memory);
    if (place == 0) SharedMemoryTransport::Clear(rings_, size);
    return absl::OkStatus();
  }

  // Once for an island, whose ranks have as many connections each; those that are threads share a process.
  void WarnOfDescriptors() const {
    if (over_ucx_) return;
    const auto& members = span_.membership.members;
    const GroupMember& self = members[static_cast<size_t>(rank_)];
    const auto& fellows = meeting_.fellows();
    const auto threads = std::count_if(fellows.begin(), fellows.end(), [&](int fellow) {
      return members[static_cast<size_t>(fellow)].pid == self.pid;
    });
    const int of_pair =
        TcpTransport::ConnectionsOver(static_cast<int>(self.data.size()), meeting_.streams);
    const auto links = (static_cast<uint64_t>(size_) - fellows.size()) *
                       static_cast<uint64_t>(threads) * static_cast<uint64_t>(of_pair);
    const std::string lacks =
        DescriptorSentence({.links = links, .open = OpenDescriptors(), .limit = DescriptorLimit()});
    if (!lacks.empty()) LogWarn("group ", options_.name, ": ", lacks);
  }

  // Ranks of this island over its memory, others by TCP or UCX.
  absl::StatusOr<std::unique_ptr<Transport>> MakeTransport() {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Transport> across, over_ucx_ ? MakeUcx() : MakeTcp());
    if (rings_ == nullptr) return across;
    std::vector<std::unique_ptr<Transport>> carriers;
    WEFT_ASSIGN_OR_RETURN(
        carriers.emplace_back(),
        SharedMemoryTransport::Make(
            SystemSeams(), {.memory = rings_, .ranks = meeting_.fellows(), .self = rank_}));
    carriers.push_back(std::move(across));
    std::vector<int> routes;
    for (const int other : span_.islands.island_of)
      routes.push_back(other == island() ? 0 : 1);
    return std::make_unique<RoutedTransport>(std::move(carriers), std::move(routes));
  }

  absl::StatusOr<std::unique_ptr<Transport>> MakeTcp() {
    TcpSettings settings{.secret = Secret(), .self = rank_, .streams = meeting_.streams};
    // As long as its machine is waited for.
    settings.again_ns = std::max(settings.again_ns, settings_.limit_ns);
    for (const GroupMember& member : span_.membership.members) {
      settings.choices.push_back(member.choice);
      std::vector<Endpoint>& rails = settings.endpoints.emplace_back();
      for (const std::string& address : member.data) {
        WEFT_ASSIGN_OR_RETURN(rails.emplace_back(), ParseEndpoint(address));
      }
      if (rails.empty()) {
        return MakeError(WEFT_UNREACHABLE,
                         fmt::format("group {}: rank {} on {} has no address for data",
                                     options_.name, member.rank, member.host));
      }
    }
    LogRails(settings.endpoints);
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                          TcpTransport::Make(SystemSeams(), std::move(settings)));
    meeting_.data.clear();
    meeting_.ucx.reset();
    return transport;
  }

  // What some ranks have and others have not is of no use.
  void LogRails(const std::vector<std::vector<Endpoint>>& endpoints) const {
    const auto [fewest, most] =
        std::minmax_element(endpoints.begin(), endpoints.end(),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (rank_ != 0 || fewest->size() == most->size()) return;
    LogWarn("group ", options_.name, ": rank ", fewest - endpoints.begin(), " has ", fewest->size(),
            " rails, rank ", most - endpoints.begin(), " has ", most->size(),
            ": two ranks use as many as both have; see WEFT_IFNAME");
  }

  absl::StatusOr<std::unique_ptr<Transport>> MakeUcx() {
    meeting_.data.clear();
    LogInfo("group ", options_.name, ": data between nodes goes over ",
            meeting_.ucx->module().library);
    UcxSettings settings{.secret = Secret(), .self = rank_};
    for (const GroupMember& member : span_.membership.members)
      settings.addresses.push_back(member.ucx);
    return UcxTransport::Make(SystemSeams(), std::move(meeting_.ucx), std::move(settings));
  }

  // Nobody of another job, or of another group with this name, is taken for an island of this one.
  std::string Secret() const {
    return fmt::format("{}/{:016x}", span_.membership.members[0].link_secret,
                       span_.membership.group_id);
  }

  StoreReply Ask(StoreRequest::Kind kind, const std::string& key, int64_t deadline_ns,
                 const std::string& value = "") {
    return store_.Ask({.kind = kind, .key = key, .value = value, .deadline_ns = deadline_ns});
  }

  // Waits for what the first rank of another island writes, and says so if that takes long.
  StoreReply Await(const std::string& key, int other, int64_t deadline_ns) {
    while (true) {
      const int64_t slice_ns = std::min(deadline_ns, Later(MonotonicNs(), kSliceNs));
      StoreReply reply = Ask(StoreRequest::Kind::kWait, key, slice_ns);
      const bool late = ResultOf(reply.status) == WEFT_TIMEOUT;
      if (!late || MonotonicNs() >= deadline_ns) return reply;
      if (const int64_t waited_s = notices_.Due(MonotonicNs()); waited_s > 0) {
        const auto& ranks = span_.islands.ranks[static_cast<size_t>(other)];
        const GroupMember& first = span_.membership.members[static_cast<size_t>(ranks.front())];
        LogWarn("group ", options_.name, ": rank ", rank_, " has waited ", waited_s, " s for ",
                RanksText(ranks), ", on the node of ", first.host,
                ", which have met the others and do not go on; look at their output");
      }
      if (absl::Status interrupted = CheckInterrupt(StrCat("making group ", options_.name));
          !interrupted.ok()) {
        return {.status = std::move(interrupted)};
      }
    }
  }

  // One rank of each island says that it is complete, and waits for the word of the first one, which has seen whether all are: who
  // judged for himself would name another island.
  absl::Status AwaitIslands() {
    using Kind = StoreRequest::Kind;
    if (island() != 0) {
      const StoreReply complete =
          Ask(Kind::kSet, KeyOf("complete", island()), deadline_ns_, TextOf(schedules_));
      WEFT_RETURN_IF_ERROR(complete.status);
      const StoreReply word = Await(KeyOf("begin", 0), 0, Later(deadline_ns_, kGraceNs));
      WEFT_RETURN_IF_ERROR(Annotate(word.status, Late(0)));
      if (word.value.empty()) return absl::OkStatus();
      absl::string_view text = word.value;
      if (absl::ConsumePrefix(&text, ToAbsl(kProbeWord)) && absl::SimpleAtoi(text, &probe_ns_)) {
        probe_ns_ = std::clamp<int64_t>(probe_ns_, 1, kProbeMaxNs);
        return absl::OkStatus();
      }
      if (const auto schedules = ScheduleWordFromText(word.value))
        return StatusOf(*schedules, options_.name);
      return MakeError(WEFT_TIMEOUT, {.group = options_.name}, word.value);
    }
    ScheduleWord all = schedules_;
    absl::Status late;
    for (int other = 1; other < span_.islands.count() && late.ok(); ++other) {
      const StoreReply complete = Await(KeyOf("complete", other), other, deadline_ns_);
      late = Annotate(complete.status, Late(other));
      if (late.ok()) all = Together(all, ScheduleWordOf(other, complete.value));
    }
    std::string word(FromAbsl(late.message()));
    if (late.ok() && all.result != WEFT_SUCCESS) {
      word = TextOf(all);
      late = StatusOf(all, options_.name);
    } else if (late.ok() && settings_.probe_ns > 0) {
      probe_ns_ = std::min(settings_.probe_ns, kProbeMaxNs);
      word = StrCat(kProbeWord, probe_ns_);
    }
    const absl::Status said =
        Ask(Kind::kSet, KeyOf("begin", 0), Later(deadline_ns_, kGraceNs), word).status;
    return late.ok() ? said : late;
  }

  // By the first rank of each island: a ring of links, of which the slowest counts. The first of all says what was found, so all have the
  // same; if it is nothing, the links are what they are without.
  absl::Status MeasureLinks(Transport& transport) {
    using Kind = StoreRequest::Kind;
    const absl::StatusOr<LinkCost> own = ProbeLink(ProbeOf(transport));
    const std::string said = own.ok() ? TextOf(*own) : std::string(own.status().message());
    std::string word;
    if (island() == 0) {
      word = SlowestOf(said);
      WEFT_RETURN_IF_ERROR(
          Ask(Kind::kSet, KeyOf("links", 0), Later(deadline_ns_, kLinksGraceNs), word).status);
    } else {
      WEFT_RETURN_IF_ERROR(
          Ask(Kind::kSet, KeyOf("measured", island()), Later(deadline_ns_, kMeasuredGraceNs), said)
              .status);
      // Rank 0 waits that long at most, for one island after the other.
      const int64_t most_ns = probe_ns_ + (span_.islands.count() + 1) * kGraceNs;
      StoreReply reply =
          Ask(Kind::kWait, KeyOf("links", 0),
              std::min(Later(deadline_ns_, kLinksGraceNs), Later(MonotonicNs(), most_ns)));
      WEFT_RETURN_IF_ERROR(Annotate(reply.status, Late(0)));
      word = std::move(reply.value);
    }
    if (const std::optional<LinkCost> links = LinkCostFromText(word)) {
      span_.links.far = *links;
      span_.links.source = LinkSource::kMeasured;
    }
    return absl::OkStatus();
  }

  LinkProbeSettings ProbeOf(Transport& transport) const {
    const int count = span_.islands.count();
    const auto first_of = [&](int number) {
      return span_.islands.ranks[static_cast<size_t>(number % count)].front();
    };
    NumberHash id;
    id.Add(span_.membership.group_id);
    id.Add(kProbeSalt);
    const bool last_of_odd = island() == count - 1 && count % 2 == 1;
    return {.transport = &transport,
            .self = rank_,
            .next = first_of(island() + 1),
            .previous = first_of(island() + count - 1),
            .group_id = id.Get(),
            .asks_first = island() % 2 == 0 && !last_of_odd,
            .budget_ns = probe_ns_ / kProbeParts,
            .deadline_ns = std::min(deadline_ns_, Later(MonotonicNs(), probe_ns_))};
  }

  // What the first of all makes of what the islands say; "" if it is nothing.
  std::string SlowestOf(const std::string& own) {
    std::string said = own;
    std::vector<LinkCost> costs;
    for (int other = 0; other < span_.islands.count(); ++other) {
      if (other > 0) {
        const StoreReply reply =
            Ask(StoreRequest::Kind::kWait, KeyOf("measured", other),
                std::min(Later(deadline_ns_, kMeasuredGraceNs), Later(MonotonicNs(), kGraceNs)));
        said = reply.status.ok() ? reply.value : std::string(reply.status.message());
      }
      const std::optional<LinkCost> cost = LinkCostFromText(said);
      if (!cost) {
        LogWarn("group ", options_.name, ": the links between its nodes were not measured, and ",
                "schedules are chosen as if WEFT_PROBE were 0: ", said);
        return "";
      }
      costs.push_back(*cost);
    }
    const LinkCost slowest = Slowest(costs);
    LogInfo("group ", options_.name,
            ": the slowest link between its nodes: ", DescribeLink(slowest));
    return TextOf(slowest);
  }

  // What an island says that is no word is taken for one that cannot use its schedules.
  ScheduleWord ScheduleWordOf(int other, const std::string& text) const {
    const int first = span_.islands.ranks[static_cast<size_t>(other)].front();
    return ScheduleWordFromText(text).value_or(
        ScheduleWord{.result = WEFT_REMOTE_ERROR, .rank = first});
  }

  // Rank 0's island has read them. Its own words others may read still: a key per group stays, or two.
  void RemoveKeys() {
    if (island() == 0) return;
    for (const std::string_view what : {"complete", "measured"}) {
      if (what == "measured" && probe_ns_ == 0) continue;
      (void)Ask(StoreRequest::Kind::kRemove, KeyOf(what, island()), Later(MonotonicNs(), kGraceNs));
    }
  }

  // Of this group alone: another one may be made under its name when it has gone.
  std::string KeyOf(std::string_view what, int number) const {
    return fmt::format("weft/group/{}/{:016x}/{}/{}", options_.name, span_.membership.group_id,
                       what, number);
  }

  std::string Late(int other) const {
    const int rank = span_.islands.ranks[static_cast<size_t>(other)].front();
    const GroupMember& first = span_.membership.members[static_cast<size_t>(rank)];
    return fmt::format(
        "group {}: the ranks on the node of rank {}, at {} ({}), have not all made "
        "theirs: ",
        options_.name, rank, first.agent, first.choice);
  }

  Store& store_;
  GroupMeeting meeting_;
  const GroupOptions& options_;
  const SpanSettings& settings_;
  const int rank_;
  const int size_;
  const int64_t deadline_ns_;
  std::shared_ptr<ProcessGroup> home_;
  bool over_ucx_ = false;
  std::byte* rings_ = nullptr;
  ScheduleWord schedules_;  // of this rank, then of the island
  int64_t probe_ns_ = 0;    // what rank 0 says; of the first rank of an island
  NoticeTimes notices_{MonotonicNs()};
  SpanCore span_;
};

}  // namespace

absl::StatusOr<SpanCore> MakeSpan(Store& store, GroupMeeting meeting, const GroupOptions& options,
                                  const SpanSettings& settings) {
  return SpanMaking(store, std::move(meeting), options, settings).Run();
}

absl::StatusOr<std::shared_ptr<SpanRecords>> MakeRecords(ProcessGroup& inner,
                                                         const std::vector<int>& ranks, int place) {
  WEFT_ASSIGN_OR_RETURN(
      void* const block,
      inner.AllocateShared(SpanRecords::BytesFor(static_cast<int>(ranks.size()))));
  return std::make_shared<SpanRecords>(static_cast<std::byte*>(block), ranks, place);
}

void CloseSpan(SpanCore* span, bool goes_on) {
  if (!span->net->watch().here()) return;  // the parent's to close
  SpanWatch& watch = span->net->watch();
  if (goes_on)
    watch.Remove(span->end.get());
  else if (watch.LetGo(span->end.get()))
    LookNow();  // or whoever looks already does once more
  span->net.reset();
  if (!goes_on) span->inner->Close();
}

}  // namespace weft
