// What one rank has to say to another one and hears of it: puts the transfers that are posted for it on a stream of bytes, and takes
// what comes off it, straight from and into their memory.
//
//   MessageLink link(/*peer=*/3);
//   link.Post(&transfer);                   // also before there is a stream
//   link.Attach(std::make_unique<SocketStream>(std::move(fd)));
//   link.Advance();
//   if (!link.failure().ok()) ...
//
// Over a stream that breaks (MessageLink(3, id)) it goes on when another one is attached: nothing is lost or comes twice. There a send
// of up to 64 KiB is copied and ends when it is written. A larger one ends when it has come, or, if that is not said soon, as soon as
// what is left of it is so little that it can be copied.
//
// It may have several connections: the main one, and others beside it (Attach(stream, 1)), which carry parts of granted messages and nothing
// else. Each that has room takes the next part, so a slow one takes fewer. One that breaks keeps its parts until it is made again, or is given
// up: then they go over the main one.
//
// Invariants:
//   (T1) Memory of a receive is written only while it is posted, and only what its grant, or its own size, has room for.
//   (T2) Of a send nothing is on the stream but whole parts, each with its header: one that is retracted in the middle of a part
//        leaves a copy of the rest. A part beside the stream's bytes that is under way then is waited for, a second at most, and the link
//        is broken if it does not end.
//   (T3) What comes ahead of its receive is never more than kRoomBytes: who sends more has broken the protocol.
//   (T5) Memory of a send that has ended, or was retracted, is read no more, also if the stream breaks.
//   (T4) A send that was announced goes when it is granted, and never ahead: or its grant would be for nothing, and stay.
//
// Thread-safety: none; the transport's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/net.h"
#include "comm/transport/byte_stream.h"
#include "comm/transport/closed_groups.h"
#include "comm/transport/early_messages.h"
#include "comm/transport/link_connections.h"
#include "comm/transport/link_frame.h"
#include "comm/transport/message_key.h"
#include "comm/transport/said_message.h"
#include "comm/transport/send_queue.h"
#include "comm/transport/transfer_list.h"

namespace weft {

class MessageLink {
 public:
  // `lasting_id`: of this end, drawn by chance; 0: the first stream is the only one.
  explicit MessageLink(int peer, uint64_t lasting_id = 0) : peer_(peer), on_(lasting_id) {}

  MessageLink(const MessageLink&) = delete;
  MessageLink& operator=(const MessageLink&) = delete;

  void Post(Transfer* transfer);

  // One whose other end is known to be the peer. Of a link that lasts also in place of another one, and for one of several connections: number 0
  // is the main one, 1 to kLinkConnectionsMax - 1 are beside it. Of one
  // that was given up it is closed.
  void Attach(std::unique_ptr<ByteStream> stream, int number = 0);

  // There is, or was, a stream of this number; 0: always.
  bool has(int number) const { return on_.Find(number) != nullptr; }

  // Of one that there has been: false before, and from when the stream has broken on.
  bool attached(int number = 0) const { return Of(number).stream.attached(); }

  // The other end of the stream is there, and has all that went before.
  bool settled(int number = 0) const { return attached(number) && Of(number).stream.settled(); }

  // Why the last stream is not attached any more.
  const absl::Status& broken(int number = 0) const { return Of(number).broken; }

  // Of one that there has been: how many bytes have come, both ways, as far as this end knows.
  uint64_t Progress(int number) const {
    return Of(number).stream.acknowledged() + Of(number).stream.received();
  }

  // How many bytes have been put on it, each once.
  uint64_t sent(int number) const { return has(number) ? Of(number).stream.sent() : 0; }

  // So much has been granted that connections beside the main one may pay.
  bool WantsMore() const { return granted_bytes_ >= kSharedFromBytes; }

  // No stream follows that of a connection beside the main one: what was on it, and has not come, goes over the main one. The other end is told.
  void GiveUp(int number);

  // By this end or the other one.
  bool given_up(int number) const { return has(number) && Of(number).given_up; }

  // Nothing will follow what was begun to be said: the other end is told, so that it does not wait for another stream.
  void Leave();

  // Moves what can be moved; true if anything was.
  bool Advance();

  void CloseGroup(uint64_t group_id);

  // As Transport's.
  std::optional<OfferedMessage> Offered(const StreamId& stream) const;

  // Why the link is of no use any more; Ok while it is.
  const absl::Status& failure() const { return failure_; }

  // There is something that the stream has to have room for.
  bool WantsToWrite(int number = 0) const;

  // There is something to be read that the stream's descriptor does not tell of.
  bool HasUnread(int number = 0) const { return Of(number).in.HasUnread(); }

  // This side will sleep: sends that could end at once, by a copy of what is not known to have come, do so in the next Advance(). True if
  // there are such.
  bool PrepareToSleep();

  // Of what was begun to be sent all is on the streams, and ending them takes nothing back; of the main one's alone without `beside`.
  bool Quiet(bool beside = true) const;

 private:
  const LinkConnection& Of(int number) const { return *on_.Find(number); }

  bool Fail(absl::Status why);
  bool Broken(LinkConnection* on, const IoResult& result, const char* doing);
  bool AdvanceOn(LinkConnection* on);
  bool SettleStream(LinkConnection* on);

  bool MayWrite(const LinkConnection& on) const;
  bool WriteSome(LinkConnection* on);
  bool TakeUpNext(LinkConnection* on);
  void TellOfRoomIfMuch();
  LinkFrame RoomOwed();
  void TakeBackOut(LinkConnection* on);

  bool ReadSome(LinkConnection* on);
  void TakeHeader(LinkConnection* on);
  void TellIfWaitedFor();
  void Refuse(Transfer* receive, const SaidMessage& said);
  void RefuseOthers(const StreamId& stream, const SaidMessage& said);
  void TakeAnnounce();
  void TakeGrant();
  void TakeGiveUp();
  void BeginData(LinkConnection* on);
  void BeginEarly();
  bool Fits(const LinkFrame& header, const Transfer& receive) const;
  void EndData(LinkConnection* on);
  void TakeBackIn(LinkConnection* on);

  const int peer_;
  LinkConnections on_;
  SendQueue sends_{&on_};
  absl::Status failure_;
  bool leaves_ = false;
  bool peer_leaves_ = false;
  ClosedGroups closed_;
  int looks_in_vain_ =
      0;  // since the last that moved something, while there are sends that are not known to have come
  uint64_t granted_bytes_ = 0;

  TransferList receives_;
  EarlyMessages early_;
  // What was said of messages whose transfers are not posted here yet.
  std::map<MessageKey, SaidMessage> granted_;
  std::map<MessageKey, SaidMessage> announced_;
  bool in_early_ = false;  // what is being read is ahead of its receive
  bool waited_for_ =
      false;  // the other side is to be told as soon as no more than kKeptOfMessage is left
};

}  // namespace weft
