// One call of a stream moves as much as it can: frames without data, a header and the data behind it go out together; data comes in
// together with the header that follows it.
#include "comm/transport/message_link.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Between two of them others get a turn: links, and the caller.
constexpr int kCallsPerAdvance = 8;
// Before a send that is not known to have come is copied: answers come sooner, as a rule.
constexpr int kLooksBeforeKept = 64;
// What one side may say of messages that the other has not heard of yet: far more than operations can be under way.
constexpr size_t kSaidMax = 65'536;

bool IsOf(const Transfer* transfer, uint64_t group_id) {
  return transfer != nullptr && transfer->stream.group_id == group_id;
}

}  // namespace

bool MessageLink::Fail(absl::Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  on_.Each([](LinkConnection& on) { on.stream.End(); });
  return false;
}

bool MessageLink::Broken(LinkConnection* on, const IoResult& result, const char* doing) {
  absl::Status why =
      result.state == IoState::kClosed
          ? MakeError(WEFT_UNREACHABLE, fmt::format("rank {} has closed its connection", peer_))
          : SystemError(result.error_number, fmt::format("{} rank {}", doing, peer_));
  const bool ends = !on->stream.lasting() || peer_leaves_;
  if (ends && on_.IsMain(*on)) return Fail(std::move(why));
  on->stream.Drop();
  on->broken = std::move(why);
  on->given_up = on->given_up || ends;
  return false;
}

void MessageLink::Attach(std::unique_ptr<ByteStream> stream, int number) {
  LinkConnection& on = on_.Make(number);
  if (!on.given_up) on.stream.Attach(std::move(stream));
}

bool MessageLink::WantsToWrite(int number) const {
  const LinkConnection& on = Of(number);
  if (!on.stream.attached()) return false;
  return on.stream.WantsToWrite() || (MayWrite(on) && (!on.out.idle() || on.out.has_said() ||
                                                       on.out.will_tell() || sends_.HasNext(on)));
}

bool MessageLink::Quiet(bool beside) const {
  if (!failure_.ok()) return true;
  return on_.All([&](const LinkConnection& on) {
    if (on.given_up || (!beside && !on_.IsMain(on))) return true;
    if (!on.stream.attached()) return on.stream.Flushed();
    return on.out.idle() && !on.out.has_said() && !on.out.will_tell() && on.stream.Flushed();
  });
}

void MessageLink::Leave() {
  if (leaves_ || !attached() || !on_.main().stream.lasting()) return;
  leaves_ = true;
  // The other end learns what has come over those beside the main one, also if they are broken.
  for (int number = 1; number < kLinkConnectionsMax; ++number) {
    if (has(number)) GiveUp(number);
  }
  on_.main().out.Say({.type = LinkFrameType::kLeave});
}

bool MessageLink::Advance() {
  bool moved = AdvanceOn(&on_.main());
  if (on_.several()) {
    on_.EachBeside([&](LinkConnection& on) { moved |= AdvanceOn(&on); });
    sends_.EndAcknowledged();
    // A message that came over several of them is complete.
    on_.Each([&](LinkConnection& on) {
      if (on.out.tells() && on.stream.attached()) moved |= WriteSome(&on);
    });
  }
  if (moved) {
    looks_in_vain_ = 0;
  } else if (attached() && sends_.has_unacknowledged() && ++looks_in_vain_ >= kLooksBeforeKept) {
    looks_in_vain_ = 0;
    return sends_.Keep();
  }
  return moved;
}

bool MessageLink::AdvanceOn(LinkConnection* on) {
  LastingStream& stream = on->stream;
  if (!stream.attached()) return false;
  bool moved = !stream.settled() && SettleStream(on);
  on->out.Look();
  for (int call = 0; call < kCallsPerAdvance && stream.attached() && WriteSome(on); ++call)
    moved = true;
  for (int call = 0; call < kCallsPerAdvance && stream.attached() && ReadSome(on); ++call)
    moved = true;
  sends_.EndAcknowledged();
  // What was read may have been grants.
  for (int call = 0; moved && call < kCallsPerAdvance && stream.attached() && WriteSome(on);
       ++call) {
  }
  return moved;
}

// True if the two ends know of each other now.
bool MessageLink::SettleStream(LinkConnection* on) {
  absl::Status wrong;
  const IoResult result = on->stream.Settle(&wrong);
  if (!wrong.ok()) {
    return Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} cannot be spoken to again: {}", peer_,
                                                    FromAbsl(wrong.message()))));
  }
  on->EndLent();
  sends_.EndAcknowledged();
  if (result.state == IoState::kWouldBlock) return false;
  return result.state == IoState::kDone || Broken(on, result, "greeting");
}

bool MessageLink::PrepareToSleep() {
  if (!attached() || !sends_.has_unacknowledged() || !sends_.MayKeep()) return false;
  looks_in_vain_ = kLooksBeforeKept;
  return true;
}

void MessageLink::Post(Transfer* transfer) {
  if (closed_.Contains(transfer->stream.group_id)) {
    transfer->SetState(TransferState::kRetracted);
    return;
  }
  transfer->SetState(TransferState::kPosted);
  transfer->moved = 0;
  transfer->SetMet(false);
  transfer->granted = false;
  transfer->announced = false;
  transfer->lent = 0;
  transfer->borrowed_until = 0;
  PartWriter& out = on_.main().out;
  const MessageKey key{transfer->stream, transfer->tag};
  const bool ahead = IsAhead(transfer->bytes);
  // What the other side has said of it, if it has.
  bool waits_for_grant = !transfer->is_send && !ahead;
  std::map<MessageKey, SaidMessage>& said = transfer->is_send ? granted_ : announced_;
  if (const auto found = said.find(key); found != said.end()) {
    const SaidMessage heard = found->second;
    said.erase(found);
    if (!heard.Agrees(*transfer)) {
      // So that it sees that, too.
      if (!transfer->is_send) out.Say(FrameOf(LinkFrameType::kGrant, *transfer));
      heard.Refuse(transfer);
      return;
    }
    transfer->SetMet(true);
    transfer->granted = transfer->is_send;
    waits_for_grant = !transfer->is_send;
  } else {
    for (const SaidMessage* const other :
         {SaidByAnother(announced_, *transfer), SaidByAnother(granted_, *transfer),
          early_.SaidByAnother(*transfer)}) {
      if (other == nullptr) continue;
      other->Refuse(transfer);
      return;
    }
  }
  if (!ahead) granted_bytes_ += transfer->bytes;
  if (transfer->is_send) {
    sends_.Append(transfer);
    if (transfer->granted || ahead) return;
    transfer->announced = true;
    out.Say(FrameOf(LinkFrameType::kAnnounce, *transfer));
    return;
  }
  if (early_.HasComplete(key)) {
    early_.Take(key, transfer);
    TellOfRoomIfMuch();
    return;
  }
  receives_.Append(transfer);
  if (waits_for_grant) out.Say(FrameOf(LinkFrameType::kGrant, *transfer));
}

std::optional<OfferedMessage> MessageLink::Offered(const StreamId& stream) const {
  if (const auto found = announced_.lower_bound({stream, 0});
      found != announced_.end() && found->first.first == stream) {
    return OfferOf(found->first, found->second);
  }
  bool complete = false;
  const std::optional<OfferedMessage> early = early_.FirstIn(stream, &complete);
  if (early && (complete || receives_.Find(stream, early->tag) == nullptr)) return early;
  return std::nullopt;
}

void MessageLink::CloseGroup(uint64_t group_id) {
  if (closed_.Contains(group_id)) return;
  closed_.Add(group_id);
  on_.Each([&](LinkConnection& on) {
    if (IsOf(on.out.sending(), group_id)) TakeBackOut(&on);
    if (IsOf(on.in.receiving(), group_id)) TakeBackIn(&on);
  });
  if (in_early_ && on_.main().in.header().group_id == group_id) {
    in_early_ = false;
    on_.main().in.Into(nullptr);
  }
  sends_.Retract(group_id);
  while (Transfer* const receive = receives_.FindIf(
             [&](const Transfer& posted) { return posted.stream.group_id == group_id; })) {
    receives_.Remove(receive);
    receive->SetState(TransferState::kRetracted);
  }
  early_.EraseGroup(group_id);
  TellOfRoomIfMuch();
  EraseGroup(&granted_, group_id);
  EraseGroup(&announced_, group_id);
}

void MessageLink::GiveUp(int number) {
  LinkConnection& on = on_.Make(number);
  if (on.given_up) return;
  on.given_up = true;
  on.stream.End();
  on_.main().out.Say({.type = LinkFrameType::kGiveUp,
                      .tag = static_cast<uint64_t>(number),
                      .offset = on.stream.received()});
  on.out.Forget();
  on.in.Forget();
}

// --- Writing -------------------------------------------------------------------------------------

// What is beside the main one is used once its other end is known to be there.
bool MessageLink::MayWrite(const LinkConnection& on) const {
  return on_.IsMain(on) ? on.stream.MayWrite() : on.stream.settled();
}

// True if anything was written.
bool MessageLink::WriteSome(LinkConnection* on) {
  if (!MayWrite(*on) || (on->out.idle() && !TakeUpNext(on))) return false;
  const IoResult result = on->out.Write();
  if (result.state == IoState::kWouldBlock) return false;
  if (result.state != IoState::kDone) return Broken(on, result, "sending to");
  if (on->out.part_ended()) sends_.EndPart(on);
  return true;
}

// True if there is anything to be written.
bool MessageLink::TakeUpNext(LinkConnection* on) {
  const bool main = on_.IsMain(*on);
  if (main) sends_.AnnounceStuck();
  on->out.TakeUp();
  if (!leaves_) sends_.PickNext(on);
  if (on->out.tells()) on->out.SayNow(main ? RoomOwed() : LinkFrame{.type = LinkFrameType::kRoom});
  if (!on->out.has_taken_up()) return false;
  if (main && early_.owed() >= kRoomBytes / 8) on->out.SayFirst(RoomOwed());
  return true;
}

// Said once it is much, sooner where something is to be said anyway: a frame of its own costs as much as a small message.
void MessageLink::TellOfRoomIfMuch() {
  if (early_.owed() >= kRoomBytes / 4) on_.main().out.Say(RoomOwed());
}

LinkFrame MessageLink::RoomOwed() {
  return {.type = LinkFrameType::kRoom, .bytes = static_cast<uint32_t>(early_.TakeOwed())};
}

// (T2)
void MessageLink::TakeBackOut(LinkConnection* on) {
  const IoResult result = on->out.TakeBack();
  if (result.state != IoState::kDone) {
    (void)Broken(on, result, "taking back what was being sent to");
  } else if (on->out.part_ended()) {
    sends_.EndPart(on);
  }
}

// --- Reading -------------------------------------------------------------------------------------

// True if anything was read. Behind the data of a part there is a header.
bool MessageLink::ReadSome(LinkConnection* on) {
  const IoResult result = on->in.Read();
  if (result.state == IoState::kWouldBlock) return false;
  if (result.state != IoState::kDone) return Broken(on, result, "receiving from");
  if (on_.IsMain(*on)) TellIfWaitedFor();
  if (on->in.part_came()) EndData(on);
  if (on->in.TakeHeader()) TakeHeader(on);
  return true;
}

void MessageLink::TakeHeader(LinkConnection* on) {
  const LinkFrame& header = on->in.header();
  const bool main = on_.IsMain(*on);
  if (header.magic != kLinkFrameMagic) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent what is no frame", peer_)));
    return;
  }
  if (on->stream.lasting()) {
    if (!on->stream.Acknowledge(header.received)) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has got what was not sent", peer_)));
      return;
    }
    if (!main) on->EndLent();
    if (sends_.has_unacknowledged()) sends_.EndAcknowledged();
    on->out.CountKept(sizeof(LinkFrame));
  }
  switch (header.type) {
    case LinkFrameType::kAnnounce:
      if (main) return TakeAnnounce();
      break;
    case LinkFrameType::kGrant:
      if (main) return TakeGrant();
      break;
    case LinkFrameType::kData:
      if (main || header.ahead == 0) return BeginData(on);
      break;
    case LinkFrameType::kPlaced:
      if (main) return BeginData(on);
      break;
    case LinkFrameType::kRoom:
      if (main) sends_.GiveRoom(header.bytes);
      return;
    case LinkFrameType::kLeave:
      if (!main) break;
      peer_leaves_ = true;
      return;
    case LinkFrameType::kGiveUp:
      if (main) return TakeGiveUp();
      break;
  }
  Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a frame of an unknown type, {}{}",
                                           peer_, static_cast<int>(header.type),
                                           main ? "" : ", beside its main connection")));
}

// (T1) Also where a part of it is under way on another connection.
void MessageLink::Refuse(Transfer* receive, const SaidMessage& said) {
  receives_.Remove(receive);
  on_.Each([&](LinkConnection& on) {
    if (on.in.receiving() == receive) TakeBackIn(&on);
  });
  said.Refuse(receive);
}

// A call has one signature, whatever its messages. So where one message of an operation shows that the other side's call is another one, all do, also
// those whose other halves will never come. What is being written goes on.
void MessageLink::RefuseOthers(const StreamId& stream, const SaidMessage& said) {
  if (!said.of_call()) return;
  while (Transfer* const other = receives_.FindIf([&](const Transfer& posted) {
    return posted.stream == stream && posted.signature != said.signature;
  })) {
    Refuse(other, said);
  }
  sends_.RefuseOthers(stream, said);
}

void MessageLink::TakeAnnounce() {
  const LinkFrame& header = on_.main().in.header();
  if (closed_.Contains(header.group_id)) return;
  const MessageKey key = KeyOfFrame(header);
  const SaidMessage said = SaidBy(header);
  if (Transfer* const receive = receives_.Find(key.first, key.second); receive != nullptr) {
    // Else it has been said.
    if (IsAhead(receive->bytes)) on_.main().out.Say(FrameOf(LinkFrameType::kGrant, *receive));
    receive->SetMet(true);
    if (!said.Agrees(*receive)) Refuse(receive, said);
    return;
  }
  RefuseOthers(key.first, said);
  announced_[key] = said;
  if (announced_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} announces messages without end", peer_)));
  }
}

void MessageLink::TakeGrant() {
  const LinkFrame& header = on_.main().in.header();
  if (closed_.Contains(header.group_id)) return;
  const MessageKey key = KeyOfFrame(header);
  const SaidMessage said = SaidBy(header);
  if (Transfer* const send = sends_.Find(key.first, key.second); send != nullptr) {
    send->SetMet(true);
    // Under way: what comes of it the other side sees.
    if (send == on_.main().out.sending() || send->lent > 0) return;
    send->granted = said.Agrees(*send);
    if (!send->granted) sends_.Refuse(send, said);
    return;
  }
  RefuseOthers(key.first, said);
  granted_[key] = said;
  if (granted_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} grants messages without end", peer_)));
  }
}

// Both ends say how much they have read, and read no more: what has not come goes again.
void MessageLink::TakeGiveUp() {
  const LinkFrame& header = on_.main().in.header();
  // It may never have been attached here.
  const int number = header.tag < kLinkConnectionsMax ? static_cast<int>(header.tag) : 0;
  if (number == 0 || header.offset > sent(number)) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has given up what was not there", peer_)));
    return;
  }
  GiveUp(number);
  sends_.SendAgain(on_.Make(number).TakeMissing(header.offset));
  sends_.EndAcknowledged();
}

void MessageLink::TellIfWaitedFor() {
  if (!waited_for_ || on_.main().in.left() > kKeptOfMessage) return;
  waited_for_ = false;
  on_.main().out.Tell();
}

void MessageLink::BeginData(LinkConnection* on) {
  const LinkFrame& header = on->in.header();
  const PlacedParts may_be = on->stream.placed();
  if (header.type == LinkFrameType::kPlaced &&
      (header.ahead != 0 || header.bytes < may_be.bytes_min || header.bytes > may_be.bytes_max)) {
    Fail(MakeError(
        WEFT_CORRUPT,
        fmt::format("rank {} has sent a part of {} bytes beside the stream", peer_, header.bytes)));
    return;
  }
  const bool main = on_.IsMain(*on);
  on->in.BeginPart();
  // A sender that sleeps because no connection has room is to wake.
  if (on_.several() && header.ahead == 0) on->out.CountKept(kUntoldBytes);
  if (main && on->stream.lasting()) {
    on->out.CountKept(KeptOf(header.message_bytes, header.offset, header.bytes));
    waited_for_ = !on_.several() && header.message_bytes > kKeptOfMessage &&
                  header.offset + header.bytes == header.message_bytes;
    TellIfWaitedFor();
  }
  const MessageKey key = KeyOfFrame(header);
  const SaidMessage said = SaidBy(header);
  if (main) in_early_ = false;
  if (header.ahead != 0) {
    if (header.bytes != header.message_bytes || !IsAhead(header.bytes) ||
        !early_.HasRoomFor(header.bytes)) {  // (T3)
      Fail(MakeError(WEFT_CORRUPT,
                     fmt::format("rank {} has sent more than there is room for", peer_)));
      return;
    }
    early_.Count(header.bytes);
  }
  Transfer* const receive = receives_.Find(key.first, key.second);
  if (receive != nullptr && !said.Agrees(*receive)) {
    Refuse(receive, said);
  } else if (receive != nullptr) {
    if (!Fits(header, *receive)) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a part out of order", peer_)));
      return;
    }
    receive->SetMet(true);
    on->in.Into(receive->memory + header.offset, receive);
  } else if (header.ahead != 0 && !closed_.Contains(header.group_id)) {
    RefuseOthers(key.first, said);
    BeginEarly();
    if (!failure_.ok()) return;
  }
  if (on->in.part_came()) EndData(on);
}

// (T1) Over several connections parts come in any order; over one they do not. What is still coming counts as what has come.
bool MessageLink::Fits(const LinkFrame& header, const Transfer& receive) const {
  if (!on_.several() && header.offset != receive.moved) return false;
  size_t taken = receive.moved;
  (void)on_.All([&](const LinkConnection& on) {
    if (on.in.receiving() == &receive) taken += on.in.header().bytes;
    return true;
  });
  return header.offset <= receive.bytes && header.bytes <= receive.bytes - header.offset &&
         taken <= receive.bytes && header.bytes <= receive.bytes - taken;
}

void MessageLink::BeginEarly() {
  PartReader& in = on_.main().in;
  std::byte* const memory = early_.Begin(KeyOfFrame(in.header()), SaidBy(in.header()));
  if (memory == nullptr) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a message twice", peer_)));
    return;
  }
  in_early_ = true;
  in.Into(memory);
}

void MessageLink::EndData(LinkConnection* on) {
  const LinkFrame& header = on->in.header();
  const bool main = on_.IsMain(*on);
  Transfer* const receive = on->in.EndPart();
  if (main && std::exchange(in_early_, false)) {
    const MessageKey key = KeyOfFrame(header);
    early_.Complete(key);
    // It was posted while the data came.
    if (Transfer* const late = receives_.Find(key.first, key.second); late != nullptr) {
      receives_.Remove(late);
      early_.Take(key, late);
      TellOfRoomIfMuch();
    }
    return;
  }
  if (header.ahead != 0) {
    early_.GiveBack(header.bytes);
    TellOfRoomIfMuch();
  }
  // Most often there is an answer to the message, which says it.
  const bool tells = on->stream.lasting() && !IsAhead(header.message_bytes);
  if (tells && (!on_.several() || receive == nullptr)) on->out.TellNext();
  if (receive == nullptr) return;
  receive->moved += header.bytes;
  if (receive->moved < receive->bytes) return;
  receives_.Remove(receive);
  // The sender waits for all of them, and whoever waited here may go away.
  if (tells && on_.several()) {
    on_.Each([](LinkConnection& carried) {
      if (carried.out.owes_word()) carried.out.Tell();
    });
  }
  receive->SetState(TransferState::kDone);
}

void MessageLink::TakeBackIn(LinkConnection* on) {
  const IoResult result = on->in.TakeBack();
  if (result.state != IoState::kDone) {
    (void)Broken(on, result, "taking back what was being received from");
  } else if (on->in.part_came()) {
    EndData(on);
  }
}

}  // namespace weft
