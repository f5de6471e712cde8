#include "comm/transport/send_queue.h"

#include <algorithm>

namespace weft {

void SendQueue::GiveRoom(size_t bytes) {
  room_ = std::min(kRoomBytes, room_ + bytes);
}

bool SendQueue::MayGo(const Transfer& send) const {
  if (send.granted) return send.moved < send.bytes || send.bytes == 0;
  return !send.announced && IsAhead(send.bytes) && RoomOf(send.bytes) <= room_;  // (T4)
}

bool SendQueue::MayShare(const Transfer& send) const {
  return send.granted && !IsAhead(send.bytes) && send.moved < send.bytes;
}

// Where parts are shared, the main connection too leaves them to others while it has enough. To ask for room is a system call.
Transfer* SendQueue::NextOn(const LinkConnection& connection) const {
  const bool main = on_.IsMain(connection);
  Transfer* const first =
      waiting_.FindIf([&](const Transfer& send) { return main ? MayGo(send) : MayShare(send); });
  if (first == nullptr || !MayShare(*first) || (main && !on_.Share())) return first;
  if (connection.stream.HasRoom()) return first;
  return !main ? nullptr : waiting_.FindIf([this](const Transfer& send) {
    return MayGo(send) && !MayShare(send);
  });
}

// It is small, and not told of, and there is no room for it ahead.
bool SendQueue::IsStuck(const Transfer& send) const {
  return !send.granted && !send.announced && IsAhead(send.bytes) && RoomOf(send.bytes) > room_;
}

bool SendQueue::HasNext(const LinkConnection& connection) const {
  const bool main = on_.IsMain(connection);
  if (main && !missing_.empty()) return true;
  return NextOn(connection) != nullptr || (main && waiting_.FindIf([this](const Transfer& send) {
           return IsStuck(send);
         }) != nullptr);
}

void SendQueue::AnnounceStuck() {
  for (Transfer* send = waiting_.first(); send != nullptr; send = send->next) {
    if (!IsStuck(*send)) continue;
    send->announced = true;
    on_.main().out.Say(FrameOf(LinkFrameType::kAnnounce, *send));
  }
}

// The first send that may go; after a part it goes behind the others.
void SendQueue::PickNext(LinkConnection* connection) {
  if (!on_.IsMain(*connection)) {
    Transfer* const send = NextOn(*connection);
    if (send == nullptr) return;
    const size_t offset = send->moved;
    const size_t bytes = std::min(send->bytes - offset, kSharedPartBytesMax);
    send->moved += bytes;
    ++send->lent;
    connection->lent.push_back({.send = send, .offset = offset, .bytes = bytes});
    // Else the main connection writes a part of it, and sees to it then.
    const bool main_has_it = on_.main().out.sending() == send && again_.send == nullptr;
    if (send->moved == send->bytes && !main_has_it) {
      waiting_.Remove(send);
      unacknowledged_.Append(send);
    }
    return BeginPart(connection, send, offset, bytes);
  }
  if (!missing_.empty()) {
    again_ = missing_.front();
    missing_.pop_front();
    return BeginPart(connection, again_.send, again_.offset, again_.bytes);
  }
  Transfer* const send = NextOn(*connection);
  if (send == nullptr) return;
  if (!send->granted) room_ -= RoomOf(send->bytes);
  const size_t offset = send->moved;
  const size_t left = send->bytes - offset;
  const PlacedParts placed = connection->stream.placed();
  size_t bytes = std::min(left, on_.Share() ? kSharedPartBytesMax : kPartBytesMax);
  if (send->granted && left >= placed.bytes_min) bytes = std::min(left, placed.bytes_max);
  send->moved += bytes;
  BeginPart(connection, send, offset, bytes);
}

void SendQueue::BeginPart(LinkConnection* connection, Transfer* send, size_t offset, size_t bytes) {
  LinkFrame header = FrameOf(LinkFrameType::kData, *send);
  if (send->granted && bytes >= connection->stream.placed().bytes_min)
    header.type = LinkFrameType::kPlaced;
  header.ahead = send->granted ? 0 : 1;
  header.bytes = static_cast<uint32_t>(bytes);
  header.offset = offset;
  connection->out.BeginPart(header, send, connection->stream.lasting() && !IsAhead(send->bytes));
}

void SendQueue::EndPart(LinkConnection* connection) {
  const bool borrows = connection->out.borrows();
  Transfer* const send = connection->out.EndPart();
  if (!on_.IsMain(*connection)) {
    connection->lent.back().until = connection->stream.sent();
    return;
  }
  const bool again = again_.send != nullptr;
  again_ = {};
  if (send == nullptr) return;
  if (borrows) send->borrowed_until = connection->stream.sent();
  if (again) {
    --send->lent;
    return;
  }
  waiting_.Remove(send);
  if (send->moved < send->bytes) {
    waiting_.Append(send);
  } else {
    EndIfCome(send);
  }
}

void SendQueue::SendAgain(const std::vector<LentPart>& parts) {
  missing_.insert(missing_.end(), parts.begin(), parts.end());
}

bool SendQueue::HasCome(const Transfer& send) const {
  return send.lent == 0 && send.borrowed_until <= on_.main().stream.acknowledged() &&
         on_.main().stream.Sent();
}

void SendQueue::EndIfCome(Transfer* send) {
  if (HasCome(*send)) {
    send->SetState(TransferState::kDone);
  } else {
    unacknowledged_.Append(send);
  }
}

void SendQueue::EndAcknowledged() {
  while (Transfer* const send =
             unacknowledged_.FindIf([this](const Transfer& written) { return HasCome(written); })) {
    unacknowledged_.Remove(send);
    send->SetState(TransferState::kDone);
  }
}

// Its owner need not wait: what is not known to have come may be copied.
bool SendQueue::MayBeKept(const Transfer& send) const {
  const LastingStream& main = on_.main().stream;
  // What is on another connection may have to go again, by this one, if that is given up.
  if (send.lent > 0) return false;
  const uint64_t left = std::min<uint64_t>(
      send.bytes, std::max(send.borrowed_until, main.acknowledged()) - main.acknowledged());
  return main.Sent() && left <= kKeptOfMessage && main.kept_bytes() + left <= kKeptBytes;
}

bool SendQueue::MayKeep() const {
  return unacknowledged_.FindIf([this](const Transfer& written) { return MayBeKept(written); }) !=
         nullptr;
}

bool SendQueue::Keep() {
  bool any = false;
  while (Transfer* const send = unacknowledged_.FindIf(
             [this](const Transfer& written) { return MayBeKept(written); })) {
    unacknowledged_.Remove(send);
    Own(send);
    send->SetState(TransferState::kDone);
    any = true;
  }
  return any;
}

// (T5)
void SendQueue::Own(Transfer* send) {
  on_.Each([send](LinkConnection& connection) { connection.Own(send); });
  if (send->lent > 0)
    std::erase_if(missing_, [send](const LentPart& part) { return part.send == send; });
}

void SendQueue::Refuse(Transfer* send, const SaidMessage& said) {
  waiting_.Remove(send);
  Own(send);
  said.Refuse(send);
}

void SendQueue::RefuseOthers(const StreamId& stream, const SaidMessage& said) {
  while (Transfer* const other = waiting_.FindIf([&](const Transfer& posted) {
    return posted.stream == stream && posted.signature != said.signature &&
           on_.All([&](const LinkConnection& connection) {
             return connection.out.sending() != &posted;
           });
  })) {
    Refuse(other, said);
  }
}

void SendQueue::Retract(uint64_t group_id) {
  for (TransferList* const list : {&waiting_, &unacknowledged_}) {
    while (Transfer* const send = list->FindIf(
               [&](const Transfer& posted) { return posted.stream.group_id == group_id; })) {
      list->Remove(send);
      Own(send);
      send->SetState(TransferState::kRetracted);
    }
  }
}

}  // namespace weft
