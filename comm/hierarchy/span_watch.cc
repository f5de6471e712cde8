// The other islands learn of an end by a look at the inner groups every 20 ms, which only the speaker takes: who raises a failure need
// not know who that is. Failures are rare; a bell between processes for them would be one more thing that has to be right.
#include "comm/hierarchy/span_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/number_hash.h"
#include "comm/group/progress.h"
#include "comm/rendezvous/roll_call.h"

namespace weft {
namespace {

constexpr int64_t kFoundNs = 20'000'000;
constexpr int64_t kCauseNapNs = 1'000'000;
// For the word of who speaks, after the deadline.
constexpr int64_t kAnswerNs = 500'000'000;

// Of what the processes of an island share, in its block.
struct Offsets {
  size_t mail;
  size_t ready;
  size_t stalls;
  size_t notes;
  size_t end;
};

Offsets OffsetsFor(const IslandMap& map, int island) {
  const auto processes = static_cast<int>(map.island(island).processes.size());
  Offsets at{};
  at.mail = IslandSharedMemory::BytesFor(map, island);
  at.ready = at.mail + IslandMail::BytesFor(processes);
  at.stalls = at.ready + IslandReady::BytesFor(processes);
  at.notes = at.stalls + IslandStalls::BytesFor(map.island_count());
  at.end =
      at.notes + static_cast<size_t>(processes) * SharedText::BytesFor(LinkNote::kNotesBytesMax);
  return at;
}

}  // namespace

SpanWatch::SpanWatch(const Seams& seams, const IslandAgentSettings& settings,
                     std::shared_ptr<const IslandMap> map, std::byte* block, int island,
                     int process, UniqueFd address)
    : map_(std::move(map)),
      address_(std::move(address)),
      island_(island),
      process_(process),
      limit_ns_(BoundedIslandLimit(settings.limit_ns)),
      memory_(*map_, island, process, block),
      mail_(block + OffsetsFor(*map_, island).mail,
            static_cast<int>(map_->island(island).processes.size()), process),
      ready_(block + OffsetsFor(*map_, island).ready, mail_.process_count(), process),
      stalls_(block + OffsetsFor(*map_, island).stalls, map_->island_count()),
      notes_(block + OffsetsFor(*map_, island).notes),
      side_(seams, settings, *map_, &memory_, island, process),
      mail_read_(static_cast<size_t>(mail_.process_count())),
      read_memory_(*map_, island, process, block) {}

size_t SpanWatch::BytesFor(const IslandMap& map, int island) {
  return OffsetsFor(map, island).end;
}

absl::Status SpanWatch::Begin() {
  MutexLock lock(mutex_);
  return side_.Watch();
}

void SpanWatch::Add(std::shared_ptr<SpanEnd> group, Kind kind) {
  MutexLock lock(mutex_);
  groups_.push_back({.end = std::move(group), .kind = kind});
}

std::shared_ptr<SpanEnd> SpanWatch::Take(const SpanEnd* group) {
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [group](const Group& known) { return known.end.get() == group; });
  if (found == groups_.end()) return nullptr;
  std::shared_ptr<SpanEnd> taken = std::move(found->end);
  groups_.erase(found);
  return taken;
}

void SpanWatch::Remove(const SpanEnd* group) {
  std::shared_ptr<SpanEnd> removed;  // released without the lock
  MutexLock lock(mutex_);
  removed = Take(group);
}

// A look that is under way may have passed the group before it ended.
bool SpanWatch::LetGo(const SpanEnd* group) {
  std::optional<FailureRecord> found = group->Found();  // may look itself, so without the lock
  std::shared_ptr<SpanEnd> removed;                     // released without it
  MutexLock lock(mutex_);
  removed = Take(group);
  if (removed == nullptr || !found || Settled(removed->group_id())) return false;
  last_words_.Add(*std::move(found), memory_.Read().epoch);
  return true;
}

void SpanWatch::Leave() {
  if (!origin_.here()) return;
  {
    MutexLock lock(mutex_);
    if (left_) return;
  }
  // While this island counts: what comes after its leave others may not take.
  LookUntil(limit_ns_, [this] {
    MutexLock lock(mutex_);
    return last_words_.empty();
  });
  {
    MutexLock lock(mutex_);
    side_.Leave();
  }
  LookUntil(std::min(limit_ns_, IslandSide::kLeaveMaxNs), [this] {
    MutexLock lock(mutex_);
    return side_.gone() || side_.may_give_up();
  });
  {
    MutexLock lock(mutex_);
    left_ = true;
  }
  MutexLock lock(read_mutex_);
  unreadable_ = true;
}

bool SpanWatch::IsStalled(int world_rank) const {
  if (!origin_.here()) return false;
  MutexLock lock(read_mutex_);
  return !unreadable_ && stalls_.Has(map_->IslandOf(world_rank));
}

SharedText SpanWatch::NotesOf(int process) const {
  return {notes_ + static_cast<size_t>(process) * SharedText::BytesFor(LinkNote::kNotesBytesMax),
          LinkNote::kNotesBytesMax};
}

void SpanWatch::ShowLinks(const std::vector<LinkNote>& notes) {
  MutexLock lock(read_mutex_);
  if (origin_.here() && !unreadable_) NotesOf(process_).Write(EncodeLinkNotes(notes));
}

std::vector<LinkNote> SpanWatch::Links() const {
  std::vector<LinkNote> notes;
  if (!origin_.here()) return notes;
  MutexLock lock(read_mutex_);
  for (int process = 0; !unreadable_ && process < mail_.process_count(); ++process) {
    uint64_t version = 0;
    const std::optional<std::string> bytes = NotesOf(process).Read(&version);
    if (!bytes) continue;
    absl::StatusOr<std::vector<LinkNote>> shown = DecodeLinkNotes(*bytes);
    if (shown.ok()) notes.insert(notes.end(), shown->begin(), shown->end());
  }
  return notes;
}

// The caller looks itself: there may be no thread that does, or this is it.
void SpanWatch::LookUntil(int64_t patience_ns, const std::function<bool()>& done) {
  Deadline patience{patience_ns};
  EventCount nap;
  while (!done() && !patience.Passed(MonotonicNs())) {
    LookNow();
    Deadline brief{kCauseNapNs};
    (void)WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 0}, brief, done, [] { return false; });
  }
}

// Once said, it stays so.
std::optional<FailureRecord> SpanWatch::Settled(uint64_t group_id) {
  MutexLock lock(read_mutex_);
  const uint64_t version = unreadable_ ? read_version_ : read_memory_.version();
  if (version != read_version_) {
    read_version_ = version;
    for (GroupVerdict& verdict : read_memory_.ReadVerdicts()) {
      const bool known = std::any_of(settled_.begin(), settled_.end(), [&](const auto& record) {
        return record.group_id == verdict.record.group_id;
      });
      if (verdict.settled && !known) settled_.push_back(std::move(verdict.record));
    }
  }
  for (const FailureRecord& record : settled_) {
    if (record.group_id == group_id) return record;
  }
  return std::nullopt;
}

absl::Status SpanWatch::Cause(const SpanEnd& group) {
  if (!origin_.here()) return absl::OkStatus();
  const std::optional<FailureRecord> settled = Settled(group.group_id());
  return settled ? group.StatusOf(*settled) : absl::OkStatus();
}

absl::Status SpanWatch::AwaitCause(const SpanEnd& group) {
  absl::Status cause;
  if (!origin_.here()) return cause;
  LookUntil(patience_ns(), [&] {
    cause = Cause(group);
    return !cause.ok();
  });
  if (!cause.ok()) return cause;
  const std::optional<FailureRecord> found = group.Found();
  return found ? group.StatusOf(*found) : cause;
}

// Of other nodes it is not known here.
void SpanWatch::SayNotReady(uint32_t epoch, int64_t waited_s) const {
  std::vector<int> late;
  const std::vector<IslandProcess>& processes = map_->island(island_).processes;
  for (int process = 0; process < ready_.process_count(); ++process) {
    const std::optional<IslandReady::Wish> wish = ready_.WishOf(process);
    const int world_rank = processes[static_cast<size_t>(process)].world_rank;
    if (world_rank >= 0 && (!wish.has_value() || wish->epoch != epoch)) late.push_back(world_rank);
  }
  LogWarn(
      "making a group anew: this rank has waited ", waited_s, " s for ",
      late.empty() ? "ranks of other nodes" : StrCat("world ", RanksText(late), " of this node"),
      " to call weft_group_reconfigure, as all that live have to");
}

SpanWatch::NextMembership SpanWatch::AwaitMembership(uint32_t epoch, int64_t deadline_ns) {
  NextMembership next;
  const uint32_t attempt = ready_.Ask(epoch, deadline_ns);
  NoticeTimes notices(MonotonicNs());
  const auto has_end = [&] {
    if (const int64_t waited_s = notices.Due(MonotonicNs()); waited_s > 0)
      SayNotReady(epoch, waited_s);
    {
      MutexLock lock(read_mutex_);
      const IslandState state = read_memory_.Read();
      next.members = {.epoch = state.epoch, .ranks = state.members};
    }
    if (next.members.epoch > epoch) return true;
    if (const std::optional<IslandReady::Answer> answer = ready_.AnswerTo(attempt)) {
      next.result = answer->result;
      next.late = answer->world_rank;
      return true;
    }
    if (!Interrupted()) return false;
    next.interrupted = InterruptedError("waiting for the other nodes");
    return true;
  };
  const int64_t left_ns = deadline_ns - MonotonicNs();
  LookUntil(left_ns > INT64_MAX - kAnswerNs ? INT64_MAX : std::max<int64_t>(left_ns, 0) + kAnswerNs,
            has_end);
  ready_.Withdraw();
  if (next.members.epoch <= epoch && next.result == WEFT_SUCCESS) next.result = WEFT_TIMEOUT;
  return next;
}

// --- Watched -------------------------------------------------------------------------------------

void SpanWatch::AppendPollItems(std::vector<PollItem>* items) const {
  MutexLock lock(mutex_);
  if (!left_) side_.AppendPollItems(items);
}

int64_t SpanWatch::Look(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (left_ || !origin_.here()) return std::numeric_limits<int64_t>::max();
  Tell();  // before a step that says that this process leaves
  side_.Step();
  if (const IslandReach* const reach = side_.agent().reach()) stalls_.Show(reach->Stalled());
  Hear();
  Tell();
  const int64_t wake_ns = side_.NextWakeNs();
  return side_.agent().speaking() ? std::min(wake_ns, now_ns + kFoundNs) : wake_ns;
}

// A new speaker says again all that the one before may not have said.
void SpanWatch::Tell() {
  if (!last_words_.empty()) {
    last_words_.Drop([this](uint64_t group_id) { return Settled(group_id).has_value(); },
                     memory_.Read().epoch);
  }
  if (!side_.agent().speaking()) return Post();
  if (std::exchange(told_beginning_, side_.beginnings()) != side_.beginnings()) {
    for (Group& group : groups_) {
      group.found.reset();
      group.over = false;
    }
    std::fill(mail_read_.begin(), mail_read_.end(), 0);
    last_words_.SayAgain();
    told_ready_ = 0;
  }
  auto& agent = side_.agent();
  bool said =
      last_words_.Say([&agent](const FailureRecord& record) { return agent.LocalRecord(record); });
  for (Group& group : groups_)
    said |= TellOf(&group);
  said |= TellOfMail();
  said |= TellOfReady();
  if (!said) return;
  side_.agent().Step();
  Hear();
}

// One group's record at a time: the next one's when the islands have settled on that.
void SpanWatch::Post() {
  if (const FailureRecord* const word = last_words_.first()) return Post(*word);
  for (Group& group : groups_) {
    if (group.kind == Kind::kHome || group.over) continue;
    if (!Cause(*group.end).ok()) {
      group.over = true;
      continue;
    }
    const std::optional<FailureRecord> found = group.end->Found();
    if (found) return Post(*found);
  }
}

void SpanWatch::Post(const FailureRecord& record) {
  if (posted_ != record) mail_.Post(record);
  posted_ = record;
}

bool SpanWatch::TellOfMail() {
  bool said = false;
  for (int process = 0; process < mail_.process_count(); ++process) {
    uint64_t& read = mail_read_[static_cast<size_t>(process)];
    uint64_t version = read;
    const std::optional<FailureRecord> record = mail_.Read(process, &version);
    if (!record) continue;
    // Too many groups at once: again at the next look.
    if (ResultOf(side_.agent().LocalRecord(*record)) == WEFT_OUT_OF_MEMORY) continue;
    read = version;
    said = true;
  }
  return said;
}

// Who waits for a new membership, when that has changed.
bool SpanWatch::TellOfReady() {
  const uint32_t epoch = memory_.Read().epoch;
  const Island& island = map_->island(island_);
  IslandNumberSet waiting(map_->rank_count());
  int64_t deadline_ns = 0;
  NumberHash hash;
  hash.Add(epoch);
  for (int process = 0; process < ready_.process_count(); ++process) {
    const std::optional<IslandReady::Wish> wish = ready_.WishOf(process);
    if (!wish || wish->epoch != epoch) continue;
    waiting.Add(island.processes[static_cast<size_t>(process)].world_rank);
    deadline_ns = std::max(deadline_ns, wish->deadline_ns);
    hash.Add(static_cast<uint64_t>(process));
    hash.Add(wish->attempt);
  }
  if (waiting.Empty() || std::exchange(told_ready_, hash.Get()) == hash.Get()) return false;
  side_.agent().StartReconfigure(waiting, deadline_ns);
  return true;
}

// To all that wait: there is no new membership.
void SpanWatch::Answer(const IslandReady::Answer& answer) {
  for (int process = 0; process < ready_.process_count(); ++process) {
    if (const std::optional<IslandReady::Wish> wish = ready_.WishOf(process)) {
      ready_.Say(process, wish->attempt, answer);
    }
  }
}

// Until the island has closed the group, what is found may become better: a death that follows an abort.
bool SpanWatch::TellOf(Group* group) {
  if (group->over) return false;
  std::optional<FailureRecord> found = group->end->Found();
  if (found && (!group->found || !(*found == *group->found))) {
    group->unsaid.push_back(*found);
    group->found = std::move(found);
  }
  // What others have found may name a rank of this island that waits itself.
  const GroupVerdict* const known = side_.agent().relay()->Of(group->end->group_id());
  if (known != nullptr && !known->settled) {
    if (std::optional<FailureRecord> traced = group->end->Traced(known->record)) {
      group->unsaid.push_back(*std::move(traced));
    }
  }
  bool said = false;
  while (!group->unsaid.empty() && !group->over) {
    const weft_result_t taken = ResultOf(side_.agent().LocalRecord(group->unsaid.back()));
    if (taken == WEFT_OUT_OF_MEMORY) break;  // too many groups at once: again at the next look
    group->over = taken == WEFT_BAD_STATE;
    group->unsaid.pop_back();
    said = true;
  }
  return said;
}

void SpanWatch::Hear() {
  while (const std::optional<IslandEvent> event = side_.agent().NextEvent()) {
    switch (event->kind) {
      case IslandEvent::Kind::kRankDead:
        NoteEnded(event->rank, event->exit);
        break;
      case IslandEvent::Kind::kRankLeft:
        NoteEnded(event->rank, std::nullopt);
        break;
      case IslandEvent::Kind::kUnreachable:
        NoteUnreachable(event->island);
        break;
      case IslandEvent::Kind::kRecordSettled:
        NoteSettled(event->verdict.record);
        break;
      case IslandEvent::Kind::
          kGroupFailed:                 // until it is settled, ranks here may find a better cause
      case IslandEvent::Kind::kAgreed:  // the island's memory says so
      case IslandEvent::Kind::kLeftBehind:
        break;
      case IslandEvent::Kind::kNoQuorum:
        Answer({.result = WEFT_NO_QUORUM});
        break;
      case IslandEvent::Kind::kLate:
        Answer({.result = WEFT_TIMEOUT, .world_rank = event->ranks.First()});
        break;
    }
  }
}

// What a death means for groups its own island knows best: the rank may have left them. If none of its ranks is left, others must say it.
void SpanWatch::NoteEnded(int world_rank, const std::optional<ExitInfo>& exit) {
  if (!ended_.try_emplace(world_rank, exit).second) return;
  const std::vector<int> fellows = map_->RanksOf(map_->IslandOf(world_rank));
  for (const int fellow : fellows) {
    if (!ended_.contains(fellow)) return;
  }
  for (const int fellow : fellows) {
    const std::optional<ExitInfo>& how = ended_.at(fellow);
    for (Group& group : groups_) {
      if (group.kind == Kind::kPart) continue;
      const auto record = how ? group.end->Dead(fellow, *how) : std::nullopt;
      if (record) group.unsaid.push_back(*record);
    }
  }
}

void SpanWatch::NoteUnreachable(int island) {
  std::vector<int> ranks;
  for (const int rank : map_->RanksOf(island)) {
    if (!ended_.contains(rank)) ranks.push_back(rank);
  }
  for (Group& group : groups_) {
    if (group.kind == Kind::kPart) continue;
    if (const auto record = group.end->Unreachable(ranks)) group.unsaid.push_back(*record);
  }
}

void SpanWatch::NoteSettled(const FailureRecord& record) {
  for (Group& group : groups_) {
    if (group.end->group_id() != record.group_id) continue;
    group.over = true;
    group.end->Raise(record);
  }
}

}  // namespace weft
