// What one rank is to send to another one: which message goes next, in which parts, over which of their connections, and when a send has
// ended.
//
//   queue.Append(&send);
//   queue.AnnounceStuck();
//   queue.PickNext(&connection);        // a part is begun there, if one may be
//   queue.EndPart(&connection);         // it is written
//   queue.EndAcknowledged();            // the other side has said what has come
//
// Messages take turns, part by part. Those that go ahead of a grant, and all that is small, go over the main connection; parts of others over
// whichever has room.
//
// Thread-safety: none; the transport's lock. The connections are borrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "comm/transport/link_connections.h"
#include "comm/transport/link_frame.h"
#include "comm/transport/said_message.h"
#include "comm/transport/transfer_list.h"

namespace weft {

class SendQueue {
 public:
  explicit SendQueue(LinkConnections* connections) : on_(*connections) {}

  void Append(Transfer* send) { waiting_.Append(send); }

  // One of which not all is written.
  Transfer* Find(const StreamId& stream, uint64_t tag) const { return waiting_.Find(stream, tag); }

  // The other side's call is another one.
  void Refuse(Transfer* send, const SaidMessage& said);

  // The same of all in the stream that have another signature, but for what is being written.
  void RefuseOthers(const StreamId& stream, const SaidMessage& said);

  // All of a group, whose parts under way were taken back. Memory is read no more.
  void Retract(uint64_t group_id);

  // The other side has more of it for what goes ahead.
  void GiveRoom(size_t bytes);

  // There is something for PickNext() or AnnounceStuck().
  bool HasNext(const LinkConnection& connection) const;

  // What has taken the room may be wanted later than these.
  void AnnounceStuck();

  // Begins the next part there.
  void PickNext(LinkConnection* connection);

  // The part there is written, or its memory was taken back.
  void EndPart(LinkConnection* connection);

  // These were lent to a connection that has been given up: they go over the main one.
  void SendAgain(const std::vector<LentPart>& parts);

  // Some are written and not known to have come.
  bool has_unacknowledged() const { return !unacknowledged_.empty(); }

  // Ends those that have come.
  void EndAcknowledged();

  // Some that are written could end by a copy of what is not known to have come.
  bool MayKeep() const;

  // They do. True if there were any.
  bool Keep();

 private:
  bool MayGo(const Transfer& send) const;
  bool MayShare(const Transfer& send) const;
  Transfer* NextOn(const LinkConnection& connection) const;
  bool IsStuck(const Transfer& send) const;
  bool MayBeKept(const Transfer& send) const;
  bool HasCome(const Transfer& send) const;
  void Own(Transfer* send);
  void EndIfCome(Transfer* send);
  void BeginPart(LinkConnection* connection, Transfer* send, size_t offset, size_t bytes);

  LinkConnections& on_;
  TransferList waiting_;         // of each there is something to be written, or it is being
  TransferList unacknowledged_;  // written or lent, and not known to have come, or still to be sent
  std::deque<LentPart> missing_;  // of connections that were given up: to be sent again
  LentPart again_;                // of these, what is being written
  size_t room_ = kRoomBytes;      // that the other side has for what is sent ahead
};

}  // namespace weft
