// A rank that waits shows what it knows, and takes it back before it does anything else; that order is all the proof
// needs (docs/design/008-waits.md). Operations are counted for this, and a count must hold from the moment an operation may
// have effects on other ranks: a number is given before the group is asked to start, and taken back if it refuses.
#include "shard/step/wait_watch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/forwarding_group.h"
#include "comm/kernels/dtype.h"

namespace weft {

class WaitWatch::Group : public ForwardingGroup {
 public:
  Group(WaitWatch& watch, ContextGroup channel, std::shared_ptr<ProcessGroup> group)
      : ForwardingGroup(std::move(group)), watch_(watch), channel_(channel) {}

  absl::Status Run(const Collective& call) override {
    const absl::StatusOr<WorkRef> work = Start(call);
    if (work.ok()) return watch_.wait_(**work);
    const absl::Status cause = group().error();  // a refusal says less
    return cause.ok() ? work.status() : cause;
  }

  absl::StatusOr<WorkRef> Start(const Collective& call) override {
    const uint64_t number = watch_.Begin(channel_, call);
    absl::StatusOr<WorkRef> made = group().Start(call);
    if (!made.ok()) {
      watch_.DidNotBegin(channel_, number);
      return made;
    }
    WorkRef work = *std::move(made);
    watch_.Began(channel_, number, *work);
    // The watch holds no work that its starter does not: what a context takes must not depend on when it looks.
    Work* const started = work.get();
    return WorkRef(started, [this, number, work = std::move(work)](Work*) mutable {
      watch_.Released(channel_, number, std::move(work));
    });
  }

 private:
  WaitWatch& watch_;
  const ContextGroup channel_;
};

struct WaitWatch::Shown {
  uint64_t context;
  uint64_t channel;
  uint64_t number;
  std::array<OpCounts, kContextGroupCount> channels;
  char text[sizeof(WaitNotice) - 3 * sizeof(uint64_t) - kContextGroupCount * sizeof(OpCounts)];
};

std::unique_ptr<WaitWatch> WaitWatch::Make(std::shared_ptr<ProcessGroup> mesh_group,
                                           const MeshShape& shape, Wait wait) {
  if (mesh_group->notices() == nullptr) return nullptr;
  return std::unique_ptr<WaitWatch>(new WaitWatch(std::move(mesh_group), shape, std::move(wait)));
}

WaitWatch::WaitWatch(std::shared_ptr<ProcessGroup> mesh_group, const MeshShape& shape, Wait wait)
    : mesh_group_(std::move(mesh_group)),
      board_(*mesh_group_->notices()),
      shape_(shape),
      wait_(std::move(wait)) {}

WaitWatch::~WaitWatch() {
  EndWait();
}

std::shared_ptr<ProcessGroup> WaitWatch::Watch(ContextGroup channel,
                                               std::shared_ptr<ProcessGroup> group) {
  if (group == nullptr) return nullptr;
  {
    MutexLock lock(mutex_);
    lines_[static_cast<size_t>(channel)].group = group->name();
  }
  return std::make_shared<Group>(*this, channel, std::move(group));
}

// What was shown no longer holds, and nobody may read it once the operation can be seen.
uint64_t WaitWatch::Begin(ContextGroup channel, const Collective& call) {
  MutexLock lock(mutex_);
  Hide();
  Line& line = lines_[static_cast<size_t>(channel)];
  line.DropEnded();
  line.under_way.push_back({.kind = call.kind, .dtype = call.dtype, .count = call.count});
  return ++line.progress.started;
}

void WaitWatch::Began(ContextGroup channel, uint64_t number, const Work& work) {
  MutexLock lock(mutex_);
  Line& line = lines_[static_cast<size_t>(channel)];
  line.under_way[number - line.dropped - 1].work = &work;
}

// Peers have seen nothing of it. An operation that another thread started behind it keeps its number.
void WaitWatch::DidNotBegin(ContextGroup channel, uint64_t number) {
  MutexLock lock(mutex_);
  Line& line = lines_[static_cast<size_t>(channel)];
  if (number == line.progress.started) {
    line.under_way.pop_back();
    --line.progress.started;
  } else {
    line.under_way[number - line.dropped - 1].ended = true;
  }
}

void WaitWatch::Released(ContextGroup channel, uint64_t number, WorkRef work) {
  MutexLock lock(mutex_);
  Line& line = lines_[static_cast<size_t>(channel)];
  if (number <= line.dropped) return;
  Operation& operation = line.under_way[number - line.dropped - 1];
  operation.ended = work->ended();
  operation.work = nullptr;
  if (!operation.ended) operation.left = std::move(work);
}

// More than are under way at a time, so that it does not grow in the middle of a training.
WaitWatch::Line::Line() {
  constexpr size_t kUsualMax = 64;
  under_way.reserve(kUsualMax);
}

// Operations of a group end in order.
void WaitWatch::Line::DropEnded() {
  const auto ended = [](const Operation& operation) {
    const Work* const work = operation.left != nullptr ? operation.left.get() : operation.work;
    return operation.ended || (work != nullptr && work->ended());
  };
  const auto first = std::find_if_not(under_way.begin(), under_way.end(), ended);
  dropped += static_cast<uint64_t>(first - under_way.begin());
  under_way.erase(under_way.begin(), first);
}

void WaitWatch::NoteEnded() {
  MutexLock lock(mutex_);
  for (Line& line : lines_) {
    line.DropEnded();
    line.progress.ended = line.dropped;
  }
}

void WaitWatch::Hide() {
  if (place_ < 0) return;
  board_.GiveBack(place_);
  place_ = -1;
}

void WaitWatch::EndWait() {
  MutexLock lock(mutex_);
  Hide();
  // With its memory, which a vector would keep that is assigned {}: who waited for long must not hold more than others.
  suspicion_ = Suspicion();
}

bool WaitWatch::Describe(const Work& work, std::string_view call, Shown* shown) {
  shown->context = context_;
  for (size_t c = 0; c < kContextGroupCount; ++c) {
    const Line& line = lines_[c];
    shown->channels[c] = line.progress;
    const auto found =
        std::find_if(line.under_way.begin(), line.under_way.end(),
                     [&](const Operation& operation) { return operation.work == &work; });
    if (found == line.under_way.end()) continue;
    shown->channel = c;
    shown->number = line.dropped + 1 + static_cast<uint64_t>(found - line.under_way.begin());
    std::string operation = OpKindName(found->kind);
    if (found->kind != OpKind::kBarrier) {
      absl::StrAppend(&operation, " of ", found->count, " ", DtypeName(found->dtype));
    }
    CopyText(shown->text,
             StrCat(call, ": ", operation, " #", work.sequence(), " on group ", line.group));
  }
  return shown->number != 0;
}

bool WaitWatch::Show(const Work& work, std::string_view call) {
  MutexLock lock(mutex_);
  Shown shown = {};
  if (!Describe(work, call, &shown)) {
    Hide();
    return false;
  }
  const auto notice = std::bit_cast<WaitNotice>(shown);
  if (place_ >= 0 && notice == notice_) return true;
  if (place_ < 0) place_ = board_.Take();
  if (place_ < 0) return false;
  notice_ = notice;
  board_.Show(place_, notice);
  return true;
}

WaitWatch::Suspicion WaitWatch::ReadAll() const {
  const auto size = static_cast<size_t>(shape_.size);
  Suspicion all{.waits = std::vector<RankWait>(size), .seen = std::vector<Seen>(size), .stuck = {}};
  for (int rank = 0; rank < shape_.size; ++rank) {
    for (int place = 0; place < NoticeBoard::kPlaces; ++place) {
      WaitNotice notice;
      const uint64_t version = board_.Read(rank, place, &notice);
      if (version == 0) continue;
      const auto shown = std::bit_cast<Shown>(notice);
      if (shown.context != context_ || shown.channel >= kContextGroupCount) continue;
      all.waits[static_cast<size_t>(rank)] = {.waits = true,
                                              .channel = static_cast<ContextGroup>(shown.channel),
                                              .number = shown.number,
                                              .channels = shown.channels};
      all.seen[static_cast<size_t>(rank)] = {
          place, version, std::string(shown.text, strnlen(shown.text, sizeof(shown.text)))};
    }
  }
  all.stuck = FindStuck(all.waits, shape_);
  return all;
}

// All that were stuck at the look before have stood since then.
bool WaitWatch::StandsAsBefore(const std::vector<Seen>& seen) const {
  const Suspicion& before = suspicion_;
  if (before.seen.empty()) return false;
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    if (!before.stuck[rank]) continue;
    const bool same = seen[rank].version == before.seen[rank].version &&
                      seen[rank].place == before.seen[rank].place;
    if (!same) return false;
  }
  return true;
}

absl::Status WaitWatch::Look(const Work& work, bool promises, std::string_view call) {
  if (!promises) {
    EndWait();
    return absl::OkStatus();
  }
  if (!Show(work, call)) {
    suspicion_ = Suspicion();
    return absl::OkStatus();
  }
  Suspicion found = ReadAll();
  if (StandsAsBefore(found.seen)) return Report(suspicion_);
  const bool stuck = found.stuck[static_cast<size_t>(mesh_group_->rank())];
  suspicion_ = stuck ? std::move(found) : Suspicion();
  return absl::OkStatus();
}

absl::Status WaitWatch::Report(const Suspicion& suspicion) const {
  constexpr size_t kTold = 3;
  const std::vector<int> cycle = FindCycle(suspicion.waits, shape_, suspicion.stuck);
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kTold); ++i) {
    const int next = cycle[(i + 1) % cycle.size()];
    absl::StrAppend(&text, i == 0 ? "" : ", ", "rank ", cycle[i], " (",
                    suspicion.seen[static_cast<size_t>(cycle[i])].text, ") waits for rank ", next);
  }
  if (cycle.size() > kTold) absl::StrAppend(&text, ", and so on through ", cycle.size(), " ranks");
  const int outlier = FindOutlier(suspicion.waits);
  ErrorFields fields{.rank = outlier, .group = mesh_group_->name()};
  if (outlier >= 0) fields.world_rank = mesh_group_->world_rank(outlier);
  return MakeError(WEFT_MISMATCH, fields,
                   StrCat("shard context on group ", mesh_group_->name(),
                          ": ranks wait for each other for ever: ", text,
                          "; all ranks must make the same calls in the same order"));
}

}  // namespace weft
