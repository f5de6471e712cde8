// One call of the stream moves as much as it can: frames without data, a header and the data behind it go out together; data comes in
// together with the header that follows it.
#include "comm/transport/message_link.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

#include <sys/uio.h>

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

bool IsAhead(size_t bytes) {
  return bytes <= kAheadBytesMax;
}

std::pair<StreamId, uint64_t> KeyOfFrame(const LinkFrame& frame) {
  return {StreamId{frame.group_id, frame.sequence}, frame.tag};
}

// The owner of a send need not wait: what is not known to have come may be copied.
bool MayBeKept(const LastingStream& stream, const Transfer& send) {
  const uint64_t left = std::min<uint64_t>(send.bytes, send.borrowed_until - stream.acknowledged());
  return stream.Sent() && left <= kKeptOfMessage && stream.kept_bytes() + left <= kKeptBytes;
}

SaidMessage SaidBy(const LinkFrame& frame) {
  return {frame.signature, frame.message_bytes, frame.record};
}

// A call has one signature, whatever its messages. So where one message of an operation shows that the other side's call is another one, all do, also
// those whose other halves will never come. What is being written goes on.
void RefuseOthers(std::initializer_list<TransferList*> lists, const Transfer* out,
                  const StreamId& stream, const SaidMessage& said, LastingStream* carrier) {
  if (!said.of_call()) return;
  for (TransferList* const list : lists) {
    while (Transfer* const other = list->FindIf([&](const Transfer& posted) {
      return posted.stream == stream && posted.signature != said.signature && &posted != out;
    })) {
      list->Remove(other);
      if (other->is_send) carrier->Own(other->memory, other->bytes);  // (T5)
      said.Refuse(other);
    }
  }
}

const SaidMessage& SaidIn(const SaidMessage& said) {
  return said;
}

// The same of a message that came ahead of its receive.
template <typename Early>
const SaidMessage& SaidIn(const Early& early) {
  return early.said;
}

// What was said in the transfer's stream by another call than its own; nullptr: nothing.
template <typename Map>
const SaidMessage* SaidByAnother(const Map& map, const Transfer& transfer) {
  for (auto at = map.lower_bound({transfer.stream, 0});
       at != map.end() && at->first.first == transfer.stream; ++at) {
    const SaidMessage& said = SaidIn(at->second);
    if (said.of_call() && said.signature != transfer.signature) return &said;
  }
  return nullptr;
}

template <typename Map>
void EraseGroup(Map* map, uint64_t group_id) {
  std::erase_if(*map, [&](const auto& entry) { return entry.first.first.group_id == group_id; });
}

}  // namespace

bool MessageLink::Fail(absl::Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  main_.stream.End();
  return false;
}

bool MessageLink::Broken(const IoResult& result, const char* doing) {
  absl::Status why =
      result.state == IoState::kClosed
          ? MakeError(WEFT_UNREACHABLE, fmt::format("rank {} has closed its connection", peer_))
          : SystemError(result.error_number, fmt::format("{} rank {}", doing, peer_));
  if (!main_.stream.lasting() || peer_leaves_) return Fail(std::move(why));
  main_.stream.Drop();
  main_.broken = std::move(why);
  return false;
}

void MessageLink::Attach(std::unique_ptr<ByteStream> stream) {
  main_.stream.Attach(std::move(stream));
}

bool MessageLink::WantsToWrite() const {
  if (!attached()) return false;
  return main_.stream.WantsToWrite() ||
         (main_.stream.MayWrite() &&
          (!main_.out.idle() || main_.out.has_said() || main_.out.will_tell() ||
           sends_.FindIf([this](const Transfer& send) { return MayGo(send) || IsStuck(send); }) !=
               nullptr));
}

bool MessageLink::Quiet() const {
  if (!failure_.ok()) return true;
  if (!attached()) return main_.stream.Flushed();
  return main_.out.idle() && !main_.out.has_said() && !main_.out.will_tell() &&
         main_.stream.Flushed();
}

void MessageLink::Leave() {
  if (leaves_ || !attached() || !main_.stream.lasting()) return;
  leaves_ = true;
  main_.out.Say({.type = LinkFrameType::kLeave});
}

bool MessageLink::Advance() {
  if (!attached()) return false;
  bool moved = !main_.stream.settled() && SettleStream();
  main_.out.Look();
  for (int call = 0; call < kCallsPerAdvance && attached() && WriteSome(); ++call)
    moved = true;
  for (int call = 0; call < kCallsPerAdvance && attached() && ReadSome(); ++call)
    moved = true;
  EndAcknowledged();
  // What was read may have been grants.
  for (int call = 0; moved && call < kCallsPerAdvance && attached() && WriteSome(); ++call) {
  }
  if (moved) {
    looks_in_vain_ = 0;
  } else if (!unacknowledged_.empty() && ++looks_in_vain_ >= kLooksBeforeKept) {
    return EndKept();
  }
  return moved;
}

// True if the two ends know of each other now.
bool MessageLink::SettleStream() {
  absl::Status wrong;
  const IoResult result = main_.stream.Settle(&wrong);
  if (!wrong.ok()) {
    return Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} cannot be spoken to again: {}", peer_,
                                                    FromAbsl(wrong.message()))));
  }
  EndAcknowledged();
  if (result.state == IoState::kWouldBlock) return false;
  return result.state == IoState::kDone || Broken(result, "greeting");
}

void MessageLink::Post(Transfer* transfer) {
  if (closed_.Contains(transfer->stream.group_id)) {
    transfer->SetState(TransferState::kRetracted);
    return;
  }
  transfer->SetState(TransferState::kPosted);
  transfer->moved = 0;
  transfer->granted = false;
  transfer->announced = false;
  transfer->borrowed_until = 0;
  const MessageKey key{transfer->stream, transfer->tag};
  // What the other side has said of it, if it has.
  bool waits_for_grant = !transfer->is_send && !IsAhead(transfer->bytes);
  std::map<MessageKey, SaidMessage>& said = transfer->is_send ? granted_ : announced_;
  if (const auto found = said.find(key); found != said.end()) {
    const SaidMessage heard = found->second;
    said.erase(found);
    if (!heard.Agrees(*transfer)) {
      if (!transfer->is_send) Say(LinkFrameType::kGrant, *transfer);  // so that it sees that, too
      heard.Refuse(transfer);
      return;
    }
    transfer->granted = transfer->is_send;
    waits_for_grant = !transfer->is_send;
  } else {
    for (const SaidMessage* const other :
         {SaidByAnother(announced_, *transfer), SaidByAnother(granted_, *transfer),
          SaidByAnother(early_, *transfer)}) {
      if (other == nullptr) continue;
      other->Refuse(transfer);
      return;
    }
  }
  if (!transfer->is_send) {
    if (const auto found = early_.find(key); found != early_.end() && found->second.complete) {
      TakeEarly(transfer, key);
      return;
    }
    receives_.Append(transfer);
  } else {
    sends_.Append(transfer);
  }
  if (waits_for_grant) Say(LinkFrameType::kGrant, *transfer);
  if (!transfer->is_send || transfer->granted || IsAhead(transfer->bytes)) return;
  transfer->announced = true;
  Say(LinkFrameType::kAnnounce, *transfer);
}

std::optional<uint64_t> MessageLink::OfferedTag(const StreamId& stream) const {
  const MessageKey first{stream, 0};
  if (const auto found = announced_.lower_bound(first);
      found != announced_.end() && found->first.first == stream) {
    return found->first.second;
  }
  if (const auto found = early_.lower_bound(first);
      found != early_.end() && found->first.first == stream &&
      (found->second.complete || receives_.Find(stream, found->first.second) == nullptr)) {
    return found->first.second;
  }
  return std::nullopt;
}

void MessageLink::CloseGroup(uint64_t group_id) {
  if (closed_.Contains(group_id)) return;
  closed_.Add(group_id);
  const Transfer* const out = main_.out.sending();
  if (out != nullptr && out->stream.group_id == group_id) TakeBackOut();
  const Transfer* const in = main_.in.receiving();
  if (in != nullptr && in->stream.group_id == group_id) TakeBackIn();
  if (in_early_ != nullptr && main_.in.header().group_id == group_id) {
    in_early_ = nullptr;
    main_.in.Into(nullptr);
  }
  Retract(&sends_, group_id);
  Retract(&unacknowledged_, group_id);
  Retract(&receives_, group_id);
  for (const auto& [key, early] : early_) {
    // The one that is still coming gives its room back when it has come.
    if (key.first.group_id == group_id && early.complete) GiveRoom(early.bytes.size());
  }
  EraseGroup(&early_, group_id);
  EraseGroup(&granted_, group_id);
  EraseGroup(&announced_, group_id);
}

// (T2)
void MessageLink::TakeBackOut() {
  const IoResult result = main_.out.TakeBack();
  if (result.state != IoState::kDone) {
    (void)Broken(result, "taking back what was being sent to");
  } else if (main_.out.part_ended()) {
    EndPart();
  }
}

void MessageLink::TakeBackIn() {
  const IoResult result = main_.in.TakeBack();
  if (result.state != IoState::kDone) {
    (void)Broken(result, "taking back what was being received from");
  } else if (main_.in.part_came()) {
    EndData();
  }
}

void MessageLink::Retract(TransferList* list, uint64_t group_id) {
  while (Transfer* const transfer = list->FindIf(
             [&](const Transfer& posted) { return posted.stream.group_id == group_id; })) {
    list->Remove(transfer);
    if (transfer->is_send) main_.stream.Own(transfer->memory, transfer->bytes);  // (T5)
    transfer->SetState(TransferState::kRetracted);
  }
}

// --- Writing -------------------------------------------------------------------------------------

void MessageLink::Say(LinkFrameType type, const Transfer& transfer) {
  main_.out.Say({.type = type,
                 .group_id = transfer.stream.group_id,
                 .sequence = transfer.stream.sequence,
                 .tag = transfer.tag,
                 .signature = transfer.signature,
                 .message_bytes = transfer.bytes,
                 .record = transfer.record});
}

// Said once it is much, sooner where something is to be said anyway: a frame of its own costs as much as a small message.
void MessageLink::GiveRoom(size_t bytes) {
  early_room_ -= RoomOf(bytes);
  room_owed_ += RoomOf(bytes);
  if (room_owed_ >= kRoomBytes / 4) main_.out.Say(TakeRoomOwed());
}

LinkFrame MessageLink::TakeRoomOwed() {
  return {.type = LinkFrameType::kRoom,
          .bytes = static_cast<uint32_t>(std::exchange(room_owed_, 0))};
}

bool MessageLink::MayGo(const Transfer& send) const {
  return send.granted ||
         (!send.announced && IsAhead(send.bytes) && RoomOf(send.bytes) <= room_);  // (T4)
}

bool MessageLink::IsStuck(const Transfer& send) const {
  return !send.granted && !send.announced && IsAhead(send.bytes) && RoomOf(send.bytes) > room_;
}

// What has taken the room may be wanted later than these.
void MessageLink::AnnounceStuck() {
  for (Transfer* send = sends_.first(); send != nullptr; send = send->next) {
    if (!IsStuck(*send)) continue;
    send->announced = true;
    Say(LinkFrameType::kAnnounce, *send);
  }
}

// The first send that may go; after a part it goes behind the others.
void MessageLink::PickNext() {
  Transfer* const send = sends_.FindIf([this](const Transfer& posted) { return MayGo(posted); });
  if (send == nullptr) return;
  const bool ahead = !send->granted;
  if (ahead) room_ -= RoomOf(send->bytes);
  const size_t left = send->bytes - send->moved;
  const PlacedParts may_be = main_.stream.placed();
  const bool placed = !ahead && left >= may_be.bytes_min;
  const size_t bytes = std::min(left, placed ? may_be.bytes_max : kPartBytesMax);
  main_.out.BeginPart({.type = placed ? LinkFrameType::kPlaced : LinkFrameType::kData,
                       .ahead = ahead ? uint16_t{1} : uint16_t{0},
                       .group_id = send->stream.group_id,
                       .sequence = send->stream.sequence,
                       .tag = send->tag,
                       .signature = send->signature,
                       .bytes = static_cast<uint32_t>(bytes),
                       .message_bytes = send->bytes,
                       .offset = send->moved,
                       .record = send->record},
                      send, main_.stream.lasting() && !IsAhead(send->bytes));
  send->moved += bytes;
}

void MessageLink::EndPart() {
  const bool borrows = main_.out.borrows();
  Transfer* const send = main_.out.EndPart();
  if (send == nullptr) return;
  if (borrows) send->borrowed_until = main_.stream.sent();
  sends_.Remove(send);
  if (send->moved < send->bytes) {
    sends_.Append(send);
  } else if (send->borrowed_until > main_.stream.acknowledged() || !main_.stream.Sent()) {
    unacknowledged_.Append(send);
  } else {
    send->SetState(TransferState::kDone);
  }
}

// Nobody says that they have come, and there is nothing else to do: these are copied, and end. True if there were any.
bool MessageLink::EndKept() {
  looks_in_vain_ = 0;
  bool any = false;
  while (Transfer* const send = unacknowledged_.FindIf(
             [this](const Transfer& written) { return MayBeKept(main_.stream, written); })) {
    unacknowledged_.Remove(send);
    main_.stream.Own(send->memory, send->bytes);
    send->SetState(TransferState::kDone);
    any = true;
  }
  return any;
}

bool MessageLink::PrepareToSleep() {
  if (unacknowledged_.empty() || unacknowledged_.FindIf([this](const Transfer& written) {
        return MayBeKept(main_.stream, written);
      }) == nullptr) {
    return false;
  }
  looks_in_vain_ = kLooksBeforeKept;
  return true;
}

void MessageLink::EndAcknowledged() {
  while (Transfer* const send = unacknowledged_.FindIf([this](const Transfer& written) {
    return written.borrowed_until <= main_.stream.acknowledged() && main_.stream.Sent();
  })) {
    unacknowledged_.Remove(send);
    send->SetState(TransferState::kDone);
  }
}

// True if anything was written.
bool MessageLink::WriteSome() {
  if (!main_.stream.MayWrite() || (main_.out.idle() && !TakeUpNext())) return false;
  const IoResult result = main_.out.Write();
  if (result.state == IoState::kWouldBlock) return false;
  if (result.state != IoState::kDone) return Broken(result, "sending to");
  if (main_.out.part_ended()) EndPart();
  return true;
}

// True if there is anything to be written.
bool MessageLink::TakeUpNext() {
  AnnounceStuck();
  main_.out.TakeUp();
  if (!leaves_) PickNext();
  if (main_.out.tells()) main_.out.SayNow(TakeRoomOwed());
  if (!main_.out.has_taken_up()) return false;
  if (room_owed_ >= kRoomBytes / 8) main_.out.SayFirst(TakeRoomOwed());
  return true;
}

// --- Reading -------------------------------------------------------------------------------------

// True if anything was read. Behind the data of a part there is a header.
bool MessageLink::ReadSome() {
  const IoResult result = main_.in.Read();
  if (result.state == IoState::kWouldBlock) return false;
  if (result.state != IoState::kDone) return Broken(result, "receiving from");
  TellIfWaitedFor();
  if (main_.in.part_came()) EndData();
  if (main_.in.TakeHeader()) TakeHeader();
  return true;
}

void MessageLink::TakeHeader() {
  const LinkFrame& header = main_.in.header();
  if (header.magic != kLinkFrameMagic) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent what is no frame", peer_)));
    return;
  }
  if (main_.stream.lasting()) {
    if (!main_.stream.Acknowledge(header.received)) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has got what was not sent", peer_)));
      return;
    }
    if (!unacknowledged_.empty()) EndAcknowledged();
    main_.out.CountKept(sizeof(LinkFrame));
  }
  switch (header.type) {
    case LinkFrameType::kAnnounce:
      return TakeAnnounce();
    case LinkFrameType::kGrant:
      return TakeGrant();
    case LinkFrameType::kData:
    case LinkFrameType::kPlaced:
      return BeginData();
    case LinkFrameType::kRoom:
      room_ = std::min(kRoomBytes, room_ + header.bytes);
      return;
    case LinkFrameType::kLeave:
      peer_leaves_ = true;
      return;
  }
  Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a frame of an unknown type, {}", peer_,
                                           static_cast<int>(header.type))));
}

void MessageLink::TakeAnnounce() {
  const LinkFrame& header = main_.in.header();
  if (closed_.Contains(header.group_id)) return;
  const MessageKey key = KeyOfFrame(header);
  const SaidMessage said = SaidBy(header);
  if (Transfer* const receive = receives_.Find(key.first, key.second); receive != nullptr) {
    const bool agrees = said.Agrees(*receive);
    if (!agrees) receives_.Remove(receive);
    if (IsAhead(receive->bytes)) Say(LinkFrameType::kGrant, *receive);  // else it has been said
    if (!agrees) said.Refuse(receive);
    return;
  }
  RefuseOthers({&receives_, &sends_}, main_.out.sending(), key.first, said, &main_.stream);
  announced_[key] = said;
  if (announced_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} announces messages without end", peer_)));
  }
}

void MessageLink::TakeGrant() {
  const LinkFrame& header = main_.in.header();
  if (closed_.Contains(header.group_id)) return;
  const MessageKey key = KeyOfFrame(header);
  const SaidMessage said = SaidBy(header);
  if (Transfer* const send = sends_.Find(key.first, key.second); send != nullptr) {
    if (send == main_.out.sending()) return;  // under way: what comes of it the other side sees
    send->granted = said.Agrees(*send);
    if (send->granted) return;
    sends_.Remove(send);
    main_.stream.Own(send->memory, send->bytes);  // (T5)
    said.Refuse(send);
    return;
  }
  RefuseOthers({&receives_, &sends_}, main_.out.sending(), key.first, said, &main_.stream);
  granted_[key] = said;
  if (granted_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} grants messages without end", peer_)));
  }
}

void MessageLink::TellIfWaitedFor() {
  if (!waited_for_ || main_.in.left() > kKeptOfMessage) return;
  waited_for_ = false;
  main_.out.Tell();
}

void MessageLink::BeginData() {
  const LinkFrame& header = main_.in.header();
  const PlacedParts may_be = main_.stream.placed();
  if (header.type == LinkFrameType::kPlaced &&
      (header.ahead != 0 || header.bytes < may_be.bytes_min || header.bytes > may_be.bytes_max)) {
    Fail(MakeError(
        WEFT_CORRUPT,
        fmt::format("rank {} has sent a part of {} bytes beside the stream", peer_, header.bytes)));
    return;
  }
  main_.in.BeginPart();
  in_early_ = nullptr;
  if (main_.stream.lasting()) {
    main_.out.CountKept(KeptOf(header.message_bytes, header.offset, header.bytes));
    waited_for_ = header.message_bytes > kKeptOfMessage &&
                  header.offset + header.bytes == header.message_bytes;
    TellIfWaitedFor();
  }
  const MessageKey key = KeyOfFrame(header);
  const bool ahead = header.ahead != 0;
  if (ahead) {
    if (header.bytes != header.message_bytes || !IsAhead(header.bytes) ||
        early_room_ + RoomOf(header.bytes) > kRoomBytes) {  // (T3)
      Fail(MakeError(WEFT_CORRUPT,
                     fmt::format("rank {} has sent more than there is room for", peer_)));
      return;
    }
    early_room_ += RoomOf(header.bytes);
  }
  Transfer* const receive = receives_.Find(key.first, key.second);
  const SaidMessage said = SaidBy(header);
  if (receive != nullptr && !said.Agrees(*receive)) {
    receives_.Remove(receive);
    said.Refuse(receive);
  } else if (receive != nullptr) {
    // (T1)
    if (header.offset != receive->moved || header.bytes > receive->bytes - receive->moved) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a part out of order", peer_)));
      return;
    }
    main_.in.Into(receive->memory + receive->moved, receive);
  } else if (ahead && !closed_.Contains(header.group_id)) {
    RefuseOthers({&receives_, &sends_}, main_.out.sending(), key.first, said, &main_.stream);
    BeginEarly();
    if (!failure_.ok()) return;
  }
  if (main_.in.part_came()) EndData();
}

void MessageLink::BeginEarly() {
  const auto [at, added] = early_.try_emplace(KeyOfFrame(main_.in.header()));
  if (!added) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a message twice", peer_)));
    return;
  }
  Early& early = at->second;
  early.said = SaidBy(main_.in.header());
  early.bytes.resize(main_.in.header().bytes);
  in_early_ = &early;
  main_.in.Into(reinterpret_cast<std::byte*>(early.bytes.data()));
}

void MessageLink::EndData() {
  const LinkFrame& header = main_.in.header();
  Transfer* const receive = main_.in.EndPart();
  if (Early* const early = std::exchange(in_early_, nullptr); early != nullptr) {
    early->complete = true;
    const MessageKey key = KeyOfFrame(header);
    // It was posted while the data came.
    if (Transfer* const late = receives_.Find(key.first, key.second); late != nullptr) {
      receives_.Remove(late);
      TakeEarly(late, key);
    }
    return;
  }
  if (header.ahead != 0) GiveRoom(header.bytes);
  // Most often there is an answer to the message, which says it.
  if (main_.stream.lasting() && !IsAhead(header.message_bytes)) main_.out.TellNext();
  if (receive == nullptr) return;
  receive->moved += header.bytes;
  if (receive->moved < receive->bytes) return;
  receives_.Remove(receive);
  receive->SetState(TransferState::kDone);
}

void MessageLink::TakeEarly(Transfer* receive, const MessageKey& key) {
  const auto found = early_.find(key);
  const Early& early = found->second;
  const SaidMessage said = early.said;
  if (said.Agrees(*receive)) {
    if (!early.bytes.empty()) std::memcpy(receive->memory, early.bytes.data(), early.bytes.size());
    receive->moved = receive->bytes;
    receive->SetState(TransferState::kDone);
  } else {
    said.Refuse(receive);
  }
  GiveRoom(early.bytes.size());
  early_.erase(found);
}

}  // namespace weft
