#include "comm/hierarchy/span_recorder.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/call_facts.h"

namespace weft {
namespace {

constexpr uint32_t kJoinedState = 1;
constexpr uint32_t kLeftState = 3;

// Bytes of this rank's buffers, as they are counted.
size_t PartBytes(const Collective& call, bool in) {
  size_t bytes = 0;
  for (const weft_iov_t& part : call.layout->parts) {
    if ((in ? part.in : part.out) != nullptr) bytes += part.count * ElementBytes(call);
  }
  return bytes;
}

size_t ReadBytes(const Collective& call, int rank, int size) {
  if (call.kind == OpKind::kBarrier || !HasInput(call, rank)) return 0;
  return TraitsOf(call.kind).iov ? PartBytes(call, true) : InputBytes(call, size);
}

size_t WrittenBytes(const Collective& call, int rank, int size) {
  if (call.kind == OpKind::kBarrier || !HasOutput(call, rank)) return 0;
  return TraitsOf(call.kind).iov ? PartBytes(call, false) : OutputBytes(call, size);
}

}  // namespace

SpanRecorder::SpanRecorder(Group group, std::shared_ptr<SpanRecords> records,
                           const std::vector<GroupMember>& members)
    : group_(std::move(group)),
      records_(std::move(records)),
      members_(members),
      calls_(records_->calls()) {
  const LifecycleLog events = records_->events();
  events.Record({.kind = LifecycleKind::kJoined, .epoch = group_.epoch, .other = members_.size()});
  if (group_.parent_id != 0) {
    events.Record({.kind = LifecycleKind::kSplit,
                   .epoch = group_.epoch,
                   .rank = group_.parent_rank,
                   .other = group_.parent_id});
  }
  records_->SetState(kJoinedState);
}

// --- Operations ----------------------------------------------------------------------------------

void SpanRecorder::Begin(const SpanWork& work) {
  (void)counters_.Start();
  calls_.Record(work.sequence(), RecorderTicks(), work.recorded());
}

void SpanRecorder::End(const SpanWork& work, bool well) {
  const auto size = static_cast<int>(members_.size());
  counters_.Ended(well, ReadBytes(work.call(), group_.rank, size),
                  WrittenBytes(work.call(), group_.rank, size));
  calls_.SetState(work.sequence(), well ? RecordState::kDone : RecordState::kFailed);
}

void SpanRecorder::Begin(SpanMessage* message) {
  message->recorded = records_->messages().Record(RecorderTicks(), message->message);
}

void SpanRecorder::End(const SpanMessage& message, bool well) {
  if (!message.message.is_probe)
    counters_.MessageEnded(message.message.is_send, message.bytes, well);
  records_->NoteMessageEnded();
  if (well && message.message.peer == WEFT_ANY_SOURCE) {
    MessageRing::SetCourse(message.recorded, 0, message.source);
  }
  MessageRing::SetState(message.recorded, well ? MessageState::kDone : MessageState::kFailed);
}

// --- Waits ---------------------------------------------------------------------------------------

void SpanRecorder::Look(const std::deque<std::shared_ptr<SpanWork>>& works,
                        const SpanMessages& messages) {
  for (const std::shared_ptr<SpanWork>& work : works) {
    const int awaited = work->run().WaitsFor();
    if (awaited < 0) continue;
    Show(SpanWait{.sequence = static_cast<uint32_t>(work->sequence()),
                  .awaited = awaited,
                  .met = work->run().HasMet(awaited)});
    calls_.SetState(work->sequence(), RecordState::kRunning);
    calls_.SetProgress(
        work->sequence(),
        {.phase = CallPhase::kMessages,
         .waited_for = awaited <= CallProgress::kRankMax ? awaited : CallProgress::kAnyOther});
    return;
  }
  const SpanMessage* const message = messages.Oldest();
  if (message == nullptr) return LookAtNone();
  Show(SpanWait{.sequence = 0,
                .awaited = message->awaited(),
                .begun = message->message.is_send || message->source >= 0,
                .met = message->data.Met()});
}

void SpanRecorder::LookAtNone() {
  if (shown_) Show(std::nullopt);
}

void SpanRecorder::Show(const std::optional<SpanWait>& wait) {
  if (shown_ == wait) return;
  shown_ = wait;
  records_->ShowWait(wait);
}

// --- Ends ----------------------------------------------------------------------------------------

void SpanRecorder::Find(const absl::Status& found) {
  const ErrorFields fields = FieldsOf(found);
  records_->events().Record({.kind = LifecycleKind::kFailed,
                             .epoch = group_.epoch,
                             .rank = fields.rank,
                             .result = ResultOf(found),
                             .sequence = fields.sequence});
}

void SpanRecorder::Tell(const absl::Status& cause) {
  if (std::exchange(acknowledged_, true)) return;
  const ErrorFields fields = FieldsOf(cause);
  if (ResultOf(cause) == WEFT_PEER_LOST && fields.signal >= 0) {
    records_->events().Record({.kind = LifecycleKind::kPeerEnded,
                               .epoch = group_.epoch,
                               .rank = fields.rank,
                               .signal = fields.signal,
                               .exit_code = fields.exit_code,
                               .sequence = fields.sequence});
  }
  records_->events().Record({.kind = LifecycleKind::kAcknowledged,
                             .epoch = group_.epoch,
                             .rank = fields.rank,
                             .result = ResultOf(cause),
                             .sequence = fields.sequence});
  if (dump_.Take()) Dump(cause);
}

void SpanRecorder::Leave() {
  records_->events().Record({.kind = LifecycleKind::kLeaving, .epoch = group_.epoch});
  records_->SetState(kLeftState);
}

void SpanRecorder::Dump(const absl::Status& cause) const {
  const GroupMember& self = members_[static_cast<size_t>(group_.rank)];
  RecorderDump dump;
  dump.group = group_.name;
  dump.group_id = group_.id;
  dump.host = self.host;
  dump.reason = FromAbsl(cause.message());
  dump.result = ResultOf(cause);
  dump.writer_rank = static_cast<uint32_t>(group_.rank);
  dump.writer_pid = self.pid;
  dump.epoch = group_.epoch;
  for (const GroupMember& member : members_) {
    DumpedRank& rank = dump.ranks.emplace_back();
    rank.pid = member.pid;
    rank.start_time = member.start_time;
    rank.state = DumpedRank::kElsewhere;
    if (records_->Has(member.rank)) records_->CopyTo(member.rank, &rank);
  }
  dump_.Write(std::move(dump));
}

}  // namespace weft
