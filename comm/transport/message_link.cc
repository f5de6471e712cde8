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
constexpr size_t kSinkBytes = 64 << 10;

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
  stream_.End();
  return false;
}

bool MessageLink::Broken(const IoResult& result, const char* doing) {
  absl::Status why =
      result.state == IoState::kClosed
          ? MakeError(WEFT_UNREACHABLE, fmt::format("rank {} has closed its connection", peer_))
          : SystemError(result.error_number, fmt::format("{} rank {}", doing, peer_));
  if (!stream_.lasting() || peer_leaves_) return Fail(std::move(why));
  stream_.Drop();
  broken_ = std::move(why);
  return false;
}

void MessageLink::Attach(std::unique_ptr<ByteStream> stream) {
  stream_.Attach(std::move(stream));
}

bool MessageLink::WantsToWrite() const {
  if (!attached()) return false;
  return stream_.WantsToWrite() ||
         (stream_.MayWrite() && (front_done_ < front_.size() || out_part_ || !control_.empty() ||
                                 tell_ || tell_next_ || sends_.FindIf([this](const Transfer& send) {
                                   return MayGo(send) || IsStuck(send);
                                 }) != nullptr));
}

bool MessageLink::Quiet() const {
  if (!failure_.ok()) return true;
  if (!attached()) return stream_.Flushed();
  return front_done_ == front_.size() && !out_part_ && control_.empty() && !tell_ && !tell_next_ &&
         stream_.Flushed();
}

void MessageLink::Leave() {
  if (leaves_ || !attached() || !stream_.lasting()) return;
  leaves_ = true;
  AppendFrame(&control_, {.type = LinkFrameType::kLeave});
}

bool MessageLink::Advance() {
  if (!attached()) return false;
  bool moved = !stream_.settled() && SettleStream();
  tell_ = tell_ || tell_next_;
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
  const IoResult result = stream_.Settle(&wrong);
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
  if (out_ != nullptr && out_->stream.group_id == group_id) TakeBackOut();
  if (in_ != nullptr && in_->stream.group_id == group_id) TakeBackIn();
  if (in_early_ != nullptr && in_header_.group_id == group_id) {
    in_early_ = nullptr;
    in_data_ = nullptr;
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
  out_ = nullptr;
  // Also where the stream has broken: it goes on with this when there is another one.
  if (!out_begun_) {
    out_rest_.assign(reinterpret_cast<const char*>(out_data_), out_left_);
    out_data_ = reinterpret_cast<const std::byte*>(out_rest_.data());
    out_borrows_ = false;
    return;
  }
  if (!attached()) return;  // what was under way beside it has ended with it
  const IoResult result = stream_.TakeBackSend();
  if (result.state != IoState::kDone) {
    (void)Broken(result, "taking back what was being sent to");
    return;
  }
  out_left_ = 0;
  EndPart();
}

void MessageLink::TakeBackIn() {
  in_ = nullptr;
  in_data_ = nullptr;
  if (!in_begun_ || !attached()) return;
  const IoResult result = stream_.TakeBackReceive();
  if (result.state == IoState::kWouldBlock) {
    in_begun_ = false;  // what comes is thrown away
  } else if (result.state == IoState::kDone) {
    in_left_ = 0;
    EndData();
  } else {
    (void)Broken(result, "taking back what was being received from");
  }
}

void MessageLink::Retract(TransferList* list, uint64_t group_id) {
  while (Transfer* const transfer = list->FindIf(
             [&](const Transfer& posted) { return posted.stream.group_id == group_id; })) {
    list->Remove(transfer);
    if (transfer->is_send) stream_.Own(transfer->memory, transfer->bytes);  // (T5)
    transfer->SetState(TransferState::kRetracted);
  }
}

// --- Writing -------------------------------------------------------------------------------------

void MessageLink::AppendFrame(std::string* frames, LinkFrame frame) {
  frame.received = stream_.received();
  tell_ = false;
  tell_next_ = false;
  untold_ = 0;
  frames->append(reinterpret_cast<const char*>(&frame), sizeof(frame));
}

void MessageLink::Say(LinkFrameType type, const Transfer& transfer) {
  AppendFrame(&control_, {.type = type,
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
  if (room_owed_ >= kRoomBytes / 4) TellOfRoom(&control_);
}

void MessageLink::TellOfRoom(std::string* frames) {
  AppendFrame(frames, {.type = LinkFrameType::kRoom,
                       .bytes = static_cast<uint32_t>(std::exchange(room_owed_, 0))});
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
  const PlacedParts placed = stream_.placed();
  out_placed_ = !ahead && left >= placed.bytes_min;
  out_bytes_ = std::min(left, out_placed_ ? placed.bytes_max : kPartBytesMax);
  AppendFrame(&front_, {.type = out_placed_ ? LinkFrameType::kPlaced : LinkFrameType::kData,
                        .ahead = ahead ? uint16_t{1} : uint16_t{0},
                        .group_id = send->stream.group_id,
                        .sequence = send->stream.sequence,
                        .tag = send->tag,
                        .signature = send->signature,
                        .bytes = static_cast<uint32_t>(out_bytes_),
                        .message_bytes = send->bytes,
                        .offset = send->moved,
                        .record = send->record});
  out_part_ = true;
  out_data_ = send->memory + send->moved;
  out_borrows_ = stream_.lasting() && send->bytes > kAheadBytesMax;
  out_left_ = out_bytes_;
  out_ = send;
}

void MessageLink::EndPart() {
  out_part_ = false;
  out_begun_ = false;
  out_rest_.clear();
  Transfer* const send = std::exchange(out_, nullptr);
  if (send == nullptr) return;
  if (out_borrows_) send->borrowed_until = stream_.sent();
  send->moved += out_bytes_;
  sends_.Remove(send);
  if (send->moved < send->bytes) {
    sends_.Append(send);
  } else if (send->borrowed_until > stream_.acknowledged() || !stream_.Sent()) {
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
             [this](const Transfer& written) { return MayBeKept(stream_, written); })) {
    unacknowledged_.Remove(send);
    stream_.Own(send->memory, send->bytes);
    send->SetState(TransferState::kDone);
    any = true;
  }
  return any;
}

bool MessageLink::PrepareToSleep() {
  if (unacknowledged_.empty() || unacknowledged_.FindIf([this](const Transfer& written) {
        return MayBeKept(stream_, written);
      }) == nullptr) {
    return false;
  }
  looks_in_vain_ = kLooksBeforeKept;
  return true;
}

void MessageLink::EndAcknowledged() {
  while (Transfer* const send = unacknowledged_.FindIf([this](const Transfer& written) {
    return written.borrowed_until <= stream_.acknowledged() && stream_.Sent();
  })) {
    unacknowledged_.Remove(send);
    send->SetState(TransferState::kDone);
  }
}

// True if anything was written.
bool MessageLink::WriteSome() {
  if (!stream_.MayWrite()) return false;
  if (front_done_ == front_.size() && !out_part_) {
    front_.clear();
    front_done_ = 0;
    AnnounceStuck();
    front_.swap(control_);
    if (!leaves_) PickNext();
    if (tell_) TellOfRoom(&front_);
    if (front_.empty()) return false;
    if (room_owed_ >= kRoomBytes / 8) {
      TellOfRoom(&control_);
      front_.insert(0, std::exchange(control_, {}));
    }
  }
  const size_t front_left = front_.size() - front_done_;
  const bool beside = out_part_ && out_placed_;
  if (front_left == 0 && beside) {
    const IoResult result = stream_.SendPart(out_data_, out_left_);
    out_begun_ = result.state == IoState::kWouldBlock;
    if (out_begun_) return false;
    if (result.state != IoState::kDone) return Broken(result, "sending to");
    out_left_ = 0;
  } else if (front_left + out_left_ > 0) {
    const IoResult result = stream_.Write({.frames = {front_.data() + front_done_, front_left},
                                           .data = {out_data_, beside ? 0 : out_left_},
                                           .borrows = out_borrows_});
    if (result.state == IoState::kWouldBlock) return false;
    if (result.state != IoState::kDone) return Broken(result, "sending to");
    const size_t of_front = std::min(result.bytes, front_left);
    front_done_ += of_front;
    const size_t of_data = result.bytes - of_front;
    out_data_ += of_data;
    out_left_ -= of_data;
  }
  if (out_part_ && front_done_ == front_.size() && out_left_ == 0) EndPart();
  return true;
}

// --- Reading -------------------------------------------------------------------------------------

// True if anything was read. Behind the data of a part there is a header.
bool MessageLink::ReadSome() {
  if (in_part_ && in_placed_) return ReadPlaced();
  iovec pieces[2];
  size_t count = 0;
  size_t data_room = 0;
  if (in_part_ && in_left_ > 0) {
    if (in_data_ == nullptr) sink_.resize(kSinkBytes);
    data_room = in_data_ != nullptr ? in_left_ : std::min(in_left_, kSinkBytes);
    pieces[count++] = {in_data_ != nullptr ? in_data_ : sink_.data(), data_room};
  }
  if (data_room == in_left_) {
    pieces[count++] = {reinterpret_cast<char*>(&in_next_) + in_header_done_,
                       sizeof(in_next_) - in_header_done_};
  }
  const IoResult result = stream_.Read(std::span(pieces, count));
  if (result.state == IoState::kWouldBlock) return false;
  if (result.state != IoState::kDone) return Broken(result, "receiving from");
  const size_t of_data = std::min(result.bytes, data_room);
  if (in_part_) {
    if (in_data_ != nullptr) in_data_ += of_data;
    in_left_ -= of_data;
    TellIfWaitedFor();
    if (in_left_ == 0) EndData();
  }
  in_header_done_ += result.bytes - of_data;
  if (in_header_done_ == sizeof(in_next_)) TakeHeader();
  return true;
}

bool MessageLink::ReadPlaced() {
  const IoResult result = stream_.ReceivePart(in_data_, in_left_);
  in_begun_ = result.state == IoState::kWouldBlock;
  if (in_begun_) return false;
  if (result.state != IoState::kDone) return Broken(result, "receiving from");
  in_left_ = 0;
  EndData();
  return true;
}

void MessageLink::TakeHeader() {
  in_header_ = in_next_;
  in_header_done_ = 0;
  if (in_header_.magic != kLinkFrameMagic) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent what is no frame", peer_)));
    return;
  }
  if (stream_.lasting()) {
    if (!stream_.Acknowledge(in_header_.received)) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has got what was not sent", peer_)));
      return;
    }
    if (!unacknowledged_.empty()) EndAcknowledged();
    CountKept(sizeof(LinkFrame));
  }
  switch (in_header_.type) {
    case LinkFrameType::kAnnounce:
      return TakeAnnounce();
    case LinkFrameType::kGrant:
      return TakeGrant();
    case LinkFrameType::kData:
      return BeginData(/*placed=*/false);
    case LinkFrameType::kPlaced:
      return BeginData(/*placed=*/true);
    case LinkFrameType::kRoom:
      room_ = std::min(kRoomBytes, room_ + in_header_.bytes);
      return;
    case LinkFrameType::kLeave:
      peer_leaves_ = true;
      return;
  }
  Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a frame of an unknown type, {}", peer_,
                                           static_cast<int>(in_header_.type))));
}

void MessageLink::TakeAnnounce() {
  if (closed_.Contains(in_header_.group_id)) return;
  const MessageKey key = KeyOfFrame(in_header_);
  const SaidMessage said = SaidBy(in_header_);
  if (Transfer* const receive = receives_.Find(key.first, key.second); receive != nullptr) {
    const bool agrees = said.Agrees(*receive);
    if (!agrees) receives_.Remove(receive);
    if (IsAhead(receive->bytes)) Say(LinkFrameType::kGrant, *receive);  // else it has been said
    if (!agrees) said.Refuse(receive);
    return;
  }
  RefuseOthers({&receives_, &sends_}, out_, key.first, said, &stream_);
  announced_[key] = said;
  if (announced_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} announces messages without end", peer_)));
  }
}

void MessageLink::TakeGrant() {
  if (closed_.Contains(in_header_.group_id)) return;
  const MessageKey key = KeyOfFrame(in_header_);
  const SaidMessage said = SaidBy(in_header_);
  if (Transfer* const send = sends_.Find(key.first, key.second); send != nullptr) {
    if (send == out_) return;  // under way: what comes of it the other side sees
    send->granted = said.Agrees(*send);
    if (send->granted) return;
    sends_.Remove(send);
    stream_.Own(send->memory, send->bytes);  // (T5)
    said.Refuse(send);
    return;
  }
  RefuseOthers({&receives_, &sends_}, out_, key.first, said, &stream_);
  granted_[key] = said;
  if (granted_.size() > kSaidMax) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} grants messages without end", peer_)));
  }
}

// Once the other side keeps much for nothing it is told.
void MessageLink::CountKept(size_t bytes) {
  untold_ += bytes;
  if (untold_ >= kUntoldBytes) tell_ = true;
}

void MessageLink::TellIfWaitedFor() {
  if (!in_waited_for_ || in_left_ > kKeptOfMessage) return;
  in_waited_for_ = false;
  tell_ = true;
}

void MessageLink::BeginData(bool placed) {
  const PlacedParts may_be = stream_.placed();
  if (placed && (in_header_.ahead != 0 || in_header_.bytes < may_be.bytes_min ||
                 in_header_.bytes > may_be.bytes_max)) {
    Fail(
        MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a part of {} bytes beside the stream",
                                            peer_, in_header_.bytes)));
    return;
  }
  in_part_ = true;
  in_placed_ = placed;
  in_begun_ = false;
  in_left_ = in_header_.bytes;
  in_data_ = nullptr;
  in_ = nullptr;
  in_early_ = nullptr;
  if (stream_.lasting()) {
    CountKept(KeptOf(in_header_.message_bytes, in_header_.offset, in_left_));
    in_waited_for_ = in_header_.message_bytes > kKeptOfMessage &&
                     in_header_.offset + in_left_ == in_header_.message_bytes;
    TellIfWaitedFor();
  }
  const MessageKey key = KeyOfFrame(in_header_);
  const bool ahead = in_header_.ahead != 0;
  if (ahead) {
    if (in_header_.bytes != in_header_.message_bytes || !IsAhead(in_header_.bytes) ||
        early_room_ + RoomOf(in_header_.bytes) > kRoomBytes) {  // (T3)
      Fail(MakeError(WEFT_CORRUPT,
                     fmt::format("rank {} has sent more than there is room for", peer_)));
      return;
    }
    early_room_ += RoomOf(in_header_.bytes);
  }
  Transfer* const receive = receives_.Find(key.first, key.second);
  const SaidMessage said = SaidBy(in_header_);
  if (receive != nullptr && !said.Agrees(*receive)) {
    receives_.Remove(receive);
    said.Refuse(receive);
  } else if (receive != nullptr) {
    // (T1)
    if (in_header_.offset != receive->moved || in_left_ > receive->bytes - receive->moved) {
      Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a part out of order", peer_)));
      return;
    }
    in_ = receive;
    in_data_ = receive->memory + receive->moved;
  } else if (ahead && !closed_.Contains(in_header_.group_id)) {
    RefuseOthers({&receives_, &sends_}, out_, key.first, said, &stream_);
    BeginEarly();
    if (!failure_.ok()) return;
  }
  if (in_left_ == 0) EndData();
}

void MessageLink::BeginEarly() {
  const auto [at, added] = early_.try_emplace(KeyOfFrame(in_header_));
  if (!added) {
    Fail(MakeError(WEFT_CORRUPT, fmt::format("rank {} has sent a message twice", peer_)));
    return;
  }
  Early& early = at->second;
  early.said = SaidBy(in_header_);
  early.bytes.resize(in_header_.bytes);
  in_early_ = &early;
  in_data_ = reinterpret_cast<std::byte*>(early.bytes.data());
}

void MessageLink::EndData() {
  in_part_ = false;
  in_begun_ = false;
  in_data_ = nullptr;
  Early* const early = std::exchange(in_early_, nullptr);
  Transfer* const receive = std::exchange(in_, nullptr);
  if (early != nullptr) {
    early->complete = true;
    const MessageKey key = KeyOfFrame(in_header_);
    // It was posted while the data came.
    if (Transfer* const late = receives_.Find(key.first, key.second); late != nullptr) {
      receives_.Remove(late);
      TakeEarly(late, key);
    }
    return;
  }
  if (in_header_.ahead != 0) GiveRoom(in_header_.bytes);
  // Most often there is an answer to the message, which says it.
  if (stream_.lasting() && !IsAhead(in_header_.message_bytes)) tell_next_ = true;
  if (receive == nullptr) return;
  receive->moved += in_header_.bytes;
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
