// Whoever waits moves everything that is under way: all works of the group, and the transport. When nothing moves it sleeps on the
// sockets, for a short time, as the end of the group is no event on them.
#include "comm/hierarchy/span_group.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/options.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/explain_span.h"
#include "comm/hierarchy/socket_wait.h"
#include "comm/hierarchy/span_message_failure.h"
#include "comm/hierarchy/span_price.h"
#include "comm/hierarchy/span_schedule.h"
#include "comm/hierarchy/span_split.h"
#include "comm/hierarchy/span_work_failure.h"
#include "comm/kernels/reduce.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Rounds of moving what can be moved with the group's lock held.
constexpr int kRoundsMax = 32;
// Between two looks at whether the group has ended, which touch what other processes write.
constexpr int64_t kLookNs = 200'000;

// A call's own timeout, or the group's.
int64_t DeadlineOf(int64_t timeout_ns, int64_t group_timeout_ns) {
  return Later(MonotonicNs(), timeout_ns > 0 ? timeout_ns : group_timeout_ns);
}

absl::Status Closed(const std::string& group, bool reconfigured) {
  if (reconfigured) {
    return MakeError(WEFT_ABORTED, {.group = group},
                     fmt::format("group {} was reconfigured, and takes no more operations", group));
  }
  return MakeError(WEFT_INVALID_USAGE, {.group = group}, fmt::format("group {} was closed", group));
}

// Of a call that has been issued: goes as far as it can, and is left to the progress thread then.
WorkRef Begun(SpanGroup& group, std::shared_ptr<CallbackWork> work, Asking asking) {
  group.StepAll();
  if (!work->ended()) group.LeaveToProgress(asking);
  return WorkRef(std::move(work));
}

// Moves those that are done behind `ended`; `note` comes before anybody can see their end.
template <typename Work, typename Note>
void TakeDone(std::deque<std::shared_ptr<Work>>* works,
              std::vector<std::shared_ptr<CallbackWork>>* ended, Note&& note) {
  for (auto at = works->begin(); at != works->end();) {
    if (!(*at)->done()) {
      ++at;
      continue;
    }
    note(**at);
    (*at)->End(absl::OkStatus());
    ended->push_back(std::move(*at));
    at = works->erase(at);
  }
}

// Of a blocking call: its buffers are the caller's again when it returns.
absl::Status Finish(SpanGroup& group, CallbackWork& work) {
  absl::Status status = group.WaitFor(work, 0);
  if (ResultOf(status) != WEFT_INTERRUPTED) return status;
  (void)TakeInterrupt();
  group.Abort("interrupted by its program (weft_set_interrupt)");
  const UninterruptedWaits until_it_has_ended;
  const absl::Status ended = group.WaitFor(work, 0);
  return ended.ok() ? ended : AsInterrupted(ended);
}

// Who has that number in the transport; -1: nobody in the group.
int RankOf(std::span<const int> peers, int peer) {
  const auto found = std::find(peers.begin(), peers.end(), peer);
  return found != peers.end() ? static_cast<int>(found - peers.begin()) : -1;
}

// A link that is lost is waited for as long as an island that does not answer: whether the rank has died its agents will have said by then.
absl::Status CutOff(const SpanCore& core, const std::deque<std::shared_ptr<SpanWork>>& works,
                    const SpanMessages& messages, int own_rank, int64_t now_ns) {
  for (const SpanLinks::LostLink& link : core.net->LostLinks(now_ns)) {
    const int rank = RankOf(core.peers, link.event.peer);
    if (rank < 0 || now_ns < link.since_ns + core.net->watch().limit_ns()) continue;
    for (const std::shared_ptr<SpanWork>& work : works) {
      if (work->run().WaitsFor() != rank) continue;
      return CutOffCall(*work, core.end->FieldsOf(rank), own_rank, link.event.why);
    }
    if (const SpanMessage* const message = messages.Awaiting(rank); message != nullptr) {
      return CutOffMessage(*message, core.end->FieldsOf(rank), own_rank, link.event.why);
    }
  }
  return absl::OkStatus();
}

SpanCore Counted(SpanCore core, int rank) {
  core.traffic = std::make_shared<SentTraffic>(core.islands.island_of, rank);
  return core;
}

// Once for a job: on rank 0.
void WarnOfPrice(const Islands& islands, const std::string& group) {
  if (const std::string price = PriceSentence(islands); !price.empty())
    LogWarn("group ", group, ": ", price);
}

// What is said of a rank of the first group, as this one numbers them.
absl::Status OwnNumbers(const absl::Status& cause, const SpanCore& core, const std::string& name) {
  ErrorFields fields = FieldsOf(cause);
  fields.rank = core.end->RankOf(fields.world_rank);
  fields.group = name;
  return MakeError(ResultOf(cause), fields, FromAbsl(cause.message()));
}

// What has been settled, of which `own` is of this group alone. The deaths of ranks are settled for all groups together, so that all
// name the same one.
absl::Status SettledCause(const absl::Status& own, const SpanCore& core, const std::string& name) {
  if (core.of_all) return own;
  const weft_result_t result = ResultOf(own);
  if (!own.ok() && result != WEFT_PEER_LOST && result != WEFT_UNREACHABLE) return own;
  absl::Status of_all = core.net->Cause();
  return of_all.ok() ? of_all : OwnNumbers(of_all, core, name);
}

}  // namespace

absl::StatusOr<std::shared_ptr<SpanGroup>> SpanGroup::Make(Store& store, GroupMeeting meeting,
                                                           const GroupOptions& options,
                                                           const SpanSettings& settings) {
  WEFT_ASSIGN_OR_RETURN(const Isa isa, SelectIsa());
  const int rank = meeting.rank;
  WEFT_ASSIGN_OR_RETURN(SpanCore core, MakeSpan(store, std::move(meeting), options, settings));
  if (rank == 0) WarnOfPrice(core.islands, options.name);
  return std::make_shared<SpanGroup>(std::move(core), rank, options, isa, nullptr);
}

SpanGroup::SpanGroup(SpanCore core, int rank, const GroupOptions& options, Isa isa,
                     std::shared_ptr<Parts> part_of)
    : core_(Counted(std::move(core), rank)),
      rank_(rank),
      options_(options),
      isa_(isa),
      report_(std::make_shared<SpanWaitReport>(options.name, core_.epoch, rank, core_.records,
                                               core_.end)),
      part_of_(std::move(part_of)),
      timeout_ns_(TimeoutOrDefault(options.timeout_ns)),
      plans_(rank, core_.islands, core_.links, *core_.foreign, isa, core_.net->buffers()),
      messages_({.transport = &core_.net->transport(),
                 .peers = core_.peers,
                 .group_id = core_.membership.group_id,
                 .rank = rank,
                 .traffic = core_.traffic.get()}),
      recorder_({.name = options.name,
                 .id = core_.membership.group_id,
                 .epoch = core_.epoch,
                 .rank = rank,
                 .parent_id = core_.parent_id,
                 .parent_rank = core_.parent_rank},
                core_.records, core_.membership.members),
      refusals_(size()) {
  AddProgressUser();
  WatchGroup(report_);
}

SpanGroup::~SpanGroup() {
  SpanGroup::Close();
}

// --- Operations ----------------------------------------------------------------------------------

absl::Status SpanGroup::Prepare() {
  if (!origin_.here()) {
    return MakeError(
        WEFT_FORKED, {.group = options_.name},
        fmt::format("group {} belongs to the process that forked this one", options_.name));
  }
  {
    MutexLock lock(mutex_);
    if (closed_) return Closed(options_.name, succession_.begun());
  }
  return PrepareProgress();
}

// The first caller to learn of the end gets its cause, as on one node.
absl::Status SpanGroup::Admit() {
  if (closed_) return Closed(options_.name, succession_.begun());
  if (!cause_.ok()) {
    recorder_.Tell(cause_);
    if (!std::exchange(told_, true)) return cause_;
    return MakeError(WEFT_ABORTED, weft::FieldsOf(cause_),
                     fmt::format("group {} has ended and takes no more operations: {}",
                                 options_.name, FromAbsl(cause_.message())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<SpanWork>> SpanGroup::Issue(const Collective& call) {
  WEFT_RETURN_IF_ERROR(Prepare());
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(Admit());
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanPlan> plan, plans_.PlanOf(call));
  auto work = std::make_shared<SpanWork>(shared_from_this(), call, std::move(plan));
  // Without memory nothing has happened, and the next call has this number.
  const uint64_t sequence = sequence_.load(std::memory_order_relaxed) + 1;
  work->Begin(sequence, DeadlineOf(call.timeout_ns, timeout_ns_.load()));
  recorder_.Begin(*work);
  works_.push_back(work);
  sequence_.store(sequence, std::memory_order_relaxed);
  queued_.fetch_add(1);
  return work;
}

absl::Status SpanGroup::Run(const Collective& call) {
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<SpanWork> work, Issue(call));
  return Finish(*this, *work);
}

absl::StatusOr<WorkRef> SpanGroup::Start(const Collective& call) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanWork> work, Issue(call));
  return Begun(*this, std::move(work), call.background ? Asking::kNow : Asking::kSoon);
}

absl::StatusOr<std::shared_ptr<SpanMessageWork>> SpanGroup::Issue(
    std::span<const Message> messages) {
  WEFT_RETURN_IF_ERROR(Prepare());
  const int64_t timeout_ns = timeout_ns_.load();
  std::vector<int64_t> deadlines_ns;
  for (const Message& message : messages)
    deadlines_ns.push_back(DeadlineOf(message.timeout_ns, timeout_ns));
  auto work = std::make_shared<SpanMessageWork>(shared_from_this(), messages, deadlines_ns);
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(Admit());
  message_works_.push_back(work);
  for (size_t i = 0; i < work->count(); ++i) {
    recorder_.Begin(&work->message(i));
    messages_.Issue(&work->message(i));
  }
  queued_.fetch_add(1);
  return work;
}

absl::Status SpanGroup::Run(const Message& message) {
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<SpanMessageWork> work, Issue({&message, 1}));
  return Finish(*this, *work);
}

absl::StatusOr<WorkRef> SpanGroup::Start(const Message& message) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanMessageWork> work, Issue({&message, 1}));
  return Begun(*this, std::move(work), Asking::kSoon);
}

absl::Status SpanGroup::RunPair(const Message& send, const Message& recv) {
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<SpanMessageWork> work, Issue(std::array{recv, send}));
  return Finish(*this, *work);
}

absl::StatusOr<WorkRef> SpanGroup::StartPair(const Message& send, const Message& recv) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanMessageWork> work, Issue(std::array{recv, send}));
  return Begun(*this, std::move(work), Asking::kSoon);
}

// Under one lock: nobody else is to see it wait. What has failed is found by the steps before it.
absl::StatusOr<bool> SpanGroup::TryProbe(const Message& message) {
  WEFT_RETURN_IF_ERROR(Prepare());
  StepAll();
  SpanMessage probe(message, INT64_MAX);
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(Admit());
  messages_.Issue(&probe);
  if (!probe.done) messages_.Step();
  messages_.Withdraw(&probe);
  if (probe.done) TellFacts(message, probe.source, probe.facts);
  return probe.done;
}

absl::Status SpanGroup::Refuse(std::optional<OpKind> refused, std::string_view reason) {
  WEFT_RETURN_IF_ERROR(Prepare());
  return refusals_.Refuse(*this, core_.inner->notices(), refused, reason);
}

bool SpanGroup::MoveWorks() {
  bool moved = messages_.Step();
  if (const SpanMessage* const failed = messages_.failed();
      failed != nullptr && settle_by_ns_ == 0) {
    Find(DifferentMessage(*failed, core_.end->FieldsOf(failed->awaited()), rank_));
  }
  for (const std::shared_ptr<SpanWork>& work : works_) {
    moved |= work->Step();
    if (work->run().failed() != nullptr && settle_by_ns_ == 0) {
      // Who has refused the call is named, by itself as well.
      const bool refused = IsRefusal(work->call().purpose.record);
      const int other = RankOf(core_.peers, work->run().failed()->peer);
      Find(DifferentCall(*work, core_.end->FieldsOf(refused ? rank_ : other), rank_, other));
    }
  }
  return core_.net->transport().Advance() || moved;
}

// Numbers are right before whoever waits can see the end.
SpanGroup::Works SpanGroup::TakeEnded() {
  Works ended;
  TakeDone(&works_, &ended, [this](const SpanWork& work) {
    queued_.fetch_sub(1);
    recorder_.End(work, true);
  });
  TakeDone(&message_works_, &ended, [this](SpanMessageWork& work) {
    queued_.fetch_sub(1);
    for (size_t i = 0; i < work.count(); ++i)
      recorder_.End(work.message(i), true);
  });
  if (works_.empty() && message_works_.empty()) recorder_.LookAtNone();
  return ended;
}

void SpanGroup::StepAll() {
  if (!origin_.here()) return;
  Works ended;
  absl::Status cause;
  {
    MutexLock lock(mutex_);
    if (closed_) return;  // and all has ended
    // Whoever waits for a work that is done is not kept by what else there is, nor those that wait for the lock by what never ends.
    for (int round = 0; round < kRoundsMax && ended.empty() && MoveWorks(); ++round)
      ended = TakeEnded();
    if (ended.empty()) ended = TakeEnded();  // of calls that have nothing to move
    const int64_t now_ns = MonotonicNs();
    if (now_ns >= next_look_ns_) {
      next_look_ns_ = now_ns + kLookNs;
      LookForFailure(now_ns);
    }
    if (!cause_.ok()) EndAll(cause_, &ended);
    cause = cause_;
  }
  if (!cause.ok()) parts_->Fail(cause);
  for (const std::shared_ptr<CallbackWork>& work : ended) {
    ended_works_.fetch_add(1);
    work->RunCallback();
  }
}

absl::Status SpanGroup::WaitFor(CallbackWork& work, int64_t timeout_ns) {
  const int64_t until_ns = timeout_ns > 0 ? Later(MonotonicNs(), timeout_ns) : INT64_MAX;
  const auto ended = [&] {
    StepAll();
    return work.ended();
  };
  const auto given_up = [&] {
    return Interrupted() || MonotonicNs() >= until_ns;
  };
  while (!work.ended()) {
    if (!origin_.here()) return MakeError(WEFT_FORKED, "the work belongs to the parent");
    EventCount nobody;
    Deadline at_once{0};  // its sleeps are not on sockets
    if (WaitUntil(nobody, kAwake, at_once, ended, given_up) == WaitResult::kReady) break;
    if (Interrupted()) return InterruptedError(StrCat("waiting in group ", options_.name));
    if (MonotonicNs() >= until_ns) {
      return MakeError(WEFT_IN_PROGRESS, "the operation has not ended yet");
    }
    const int64_t asleep_ns = MonotonicNs();
    NapOnSockets(std::min(until_ns, asleep_ns + kSocketNapNs));
    recorder_.Waited(MonotonicNs() - asleep_ns);
  }
  return work.status();
}

// A group that another thread closes meanwhile has no sockets any more.
void SpanGroup::NapOnSockets(int64_t until_ns) {
  std::vector<PollItem> items;
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    core_.net->transport().AppendPollItems(&items);
  }
  (void)SystemSeams().net->Poll(items, until_ns);
}

// --- Ends ----------------------------------------------------------------------------------------

// What this rank has found ends the group of its island, and so that of all; Ok: somebody else has found it. The cause is awaited.
void SpanGroup::Find(const absl::Status& found) {
  if (!found.ok()) {
    recorder_.Find(found);
    core_.inner->Fail(found);
  }
  settle_by_ns_ = Later(MonotonicNs(), core_.net->watch().patience_ns());
  LookSoon();
}

void SpanGroup::LookForFailure(int64_t now_ns) {
  if (!cause_.ok() || closed_) return;
  recorder_.Look(works_, messages_);
  LookAfterGroups();
  // A part's may be a link that broke, or a death that is not told for all groups yet.
  const absl::Status own = core_.net->watch().Cause(*core_.end);
  cause_ = SettledCause(own, core_, options_.name);
  if (!cause_.ok()) {
    // Whoever waits in the group of this island alone.
    if (!core_.of_all) core_.inner->Fail(cause_);
    return;
  }
  if (settle_by_ns_ == 0) {
    if (!own.ok() || !core_.inner->error().ok() || (!core_.of_all && !core_.net->Found().ok())) {
      Find(absl::OkStatus());
    } else if (const absl::Status lost = CutOff(core_, works_, messages_, rank_, now_ns);
               !lost.ok()) {
      Find(lost);
    } else {
      const auto late = std::find_if(works_.begin(), works_.end(), [now_ns](const auto& work) {
        return now_ns >= work->deadline_ns();
      });
      if (late != works_.end()) {
        Find(LateCall(**late, core_.end->FieldsOf((*late)->run().WaitsFor()), rank_));
      } else if (const SpanMessage* const message = messages_.Late(now_ns); message != nullptr) {
        Find(LateMessage(*message, core_.end->FieldsOf(message->awaited()), rank_));
      }
    }
    return;
  }
  if (now_ns < settle_by_ns_) return;
  if (!own.ok()) {
    cause_ = own;
    return;
  }
  const std::optional<FailureRecord> found = core_.end->Found();
  cause_ = found ? core_.end->StatusOf(*found)
                 : MakeError(WEFT_ABORTED, {.group = options_.name},
                             fmt::format("group {} has ended", options_.name));
}

void SpanGroup::EndAll(const absl::Status& cause, Works* ended) {
  if (works_.empty() && message_works_.empty()) return;
  told_ = true;
  if (!closed_) recorder_.Tell(cause);
  // From here on nothing touches their memory.
  core_.net->transport().CloseGroup(core_.membership.group_id);
  for (std::shared_ptr<SpanWork>& work : works_) {
    queued_.fetch_sub(1);
    recorder_.End(*work, false);
    work->End(cause);
    ended->push_back(std::move(work));
  }
  works_.clear();
  messages_.GiveUpAll();
  for (std::shared_ptr<SpanMessageWork>& work : message_works_) {
    queued_.fetch_sub(1);
    for (size_t i = 0; i < work->count(); ++i)
      recorder_.End(work->message(i), false);
    work->End(cause);
    ended->push_back(std::move(work));
  }
  message_works_.clear();
}

absl::Status SpanGroup::error() {
  if (!origin_.here()) return absl::OkStatus();
  StepAll();
  MutexLock lock(mutex_);
  return closed_ ? Closed(options_.name, succession_.begun()) : cause_;
}

void SpanGroup::Abort(std::string_view reason) {
  if (!origin_.here()) return;
  core_.inner->Abort(reason);
  LookSoon();
}

void SpanGroup::Fail(const absl::Status& cause) {
  if (!origin_.here()) return;
  core_.inner->Fail(cause);
  LookSoon();
}

// One that is made anew keeps its island's group, of which the next one's is made.
void SpanGroup::Close() {
  if (!origin_.here()) return;
  const bool goes_on = succession_.begun();
  Works ended;
  {
    MutexLock lock(mutex_);
    if (closed_) return succession_.Drop();
    closed_ = true;
    if (!goes_on && message_works_.empty() && !works_.empty() &&
        works_.size() == refusals_.pending()) {
      core_.inner->Fail(refusals_.Cause(*this));
    } else if (!goes_on && (!works_.empty() || !message_works_.empty())) {
      core_.inner->Abort("its handle was destroyed while operations were pending");
    }
    EndAll(
        goes_on && !cause_.ok()
            ? cause_
            : MakeError(WEFT_ABORTED, {.group = options_.name},
                        fmt::format("group {} was {}", options_.name,
                                    goes_on ? "reconfigured while this call was made" : "closed")),
        &ended);
    recorder_.Leave();
  }
  for (const std::shared_ptr<CallbackWork>& work : ended) {
    work->RunCallback();
  }
  refusals_.Close();
  core_.net->transport().CloseGroup(
      core_.membership.group_id);  // what still comes for it is nobody's
  if (part_of_ != nullptr) part_of_->Remove(this);
  UnwatchGroup(report_.get());
  report_->Close();
  CloseSpan(&core_, goes_on);
  RemoveProgressUser(this);
}

// --- Progress ------------------------------------------------------------------------------------

void SpanGroup::LeaveToProgress(Asking asking) {
  if (!asked_.load() || asking == Asking::kNow) AskForProgress(shared_from_this(), asking);
}

Stepped::Attendance SpanGroup::Look() {
  if (queued_.load() == 0) return Attendance::kIdle;
  const uint64_t ended = ended_works_.load();
  const bool moves = std::exchange(looked_at_, ended) != ended;
  return moves ? Attendance::kNotNeeded : Attendance::kNeeded;
}

bool SpanGroup::TryStep(WaitTarget* target) {
  *target = {};
  StepAll();
  return queued_.load() > 0;
}

bool SpanGroup::Help(WaitTarget* target) {
  return TryStep(target);
}

bool SpanGroup::WaitFor(const WaitTarget& /*target*/, Deadline& deadline) {
  const int64_t now_ns = MonotonicNs();
  if (deadline.Passed(now_ns)) return false;
  NapOnSockets(std::min(deadline.at_ns, now_ns + kSocketNapNs));
  return true;
}

int32_t SpanGroup::QueuedPriority() {
  return queued_.load() == 0 ? INT32_MIN : 0;
}

uint32_t SpanGroup::queued() const {
  return queued_.load();
}

void SpanGroup::SetAskedForProgress(bool asked) {
  asked_.store(asked);
}

// --- The rest ------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<ProcessGroup>> SpanGroup::Split(int color, int key,
                                                               const GroupOptions& options) {
  GroupOptions inherited = options;
  if (inherited.timeout_ns <= 0) inherited.timeout_ns = timeout_ns_.load();
  WEFT_ASSIGN_OR_RETURN(std::optional<SpanPart> part,
                        SplitSpan(*this, core_, color, key, inherited));
  if (!part) return std::shared_ptr<ProcessGroup>();
  if (part->on_one_island != nullptr) return part->on_one_island;
  const auto group =
      std::make_shared<SpanGroup>(std::move(part->core), part->rank, part->options, isa_, parts_);
  parts_->Add(group);
  if (const absl::Status ended = error(); !ended.ok()) group->Fail(ended);  // meanwhile
  return std::shared_ptr<ProcessGroup>(group);
}

std::string SpanGroup::Explain(const Collective& call, BufferKind /*buffers*/) const {
  SpanChoices choices(core_.islands, core_.links);
  const auto chosen = ChooseSchedule(call, rank_, core_.islands, *core_.foreign, choices);
  if (!chosen.ok()) return StrCat("refused: ", FromAbsl(chosen.status().message()), "\n");
  const SentUnits sent = chosen->schedule->SentBy(rank_);
  std::string text = fmt::format(
      "nodes: {}\nschedule: {}\nsegments: {}\nsent elements: {}\nsent accumulators: {}\n",
      core_.islands.count(), chosen->schedule->algorithm(), chosen->schedule->segments(),
      sent.elements, sent.accumulators);
  if (call.algorithm != Protocol::kAuto) {
    text += fmt::format(
        "algorithm: {} is asked for and not taken, groups over several nodes have schedules of "
        "their own\n",
        ProtocolName(call.algorithm));
  }
  text += LinksText(core_.links);
  // Of counts that other ranks have nothing can be said.
  if (const auto time =
          TraitsOf(call.kind).local_counts
              ? std::nullopt
              : PredictSpan(*chosen->schedule, SizesOf(call, size()), core_.islands, core_.links))
    text += fmt::format("predicted: {:.1f} us\n", static_cast<double>(*time) / 1e3);
  if (const ForeignSchedule* const file = chosen->foreign)
    text += fmt::format("schedule file: {}\nschedule sha256: {}\n", file->path, file->hash);
  return text;
}

GroupStats SpanGroup::stats() const {
  GroupStats stats = recorder_.Read();
  stats.pending = queued_.load();
  stats.pending -= std::min(stats.pending, refusals_.pending());
  if (core_.islands.PlaceOf(rank_) == 0) {
    const auto fellows =
        core_.islands
            .ranks[static_cast<size_t>(core_.islands.island_of[static_cast<size_t>(rank_)])]
            .size();
    stats.shared_bytes = SpanRecords::BytesFor(static_cast<int>(fellows));
  }
  stats.node_messages = core_.traffic->near_messages();
  stats.node_bytes = core_.traffic->near_bytes();
  stats.net_messages = core_.traffic->far_messages();
  stats.net_bytes = core_.traffic->far_bytes();
  stats.private_bytes =
      sizeof(SpanGroup) + options_.name.capacity() + core_.peers.size() * sizeof(GroupMember);
  return stats;
}

void SpanGroup::SetTimeout(int64_t timeout_ns) {
  timeout_ns_.store(TimeoutOrDefault(timeout_ns));
}

}  // namespace weft
