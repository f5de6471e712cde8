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
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/net.h"
#include "comm/transport/byte_stream.h"
#include "comm/transport/closed_groups.h"
#include "comm/transport/link_connection.h"
#include "comm/transport/link_frame.h"
#include "comm/transport/said_message.h"
#include "comm/transport/transfer_list.h"

namespace weft {

class MessageLink {
 public:
  // `lasting_id`: of this end, drawn by chance; 0: the first stream is the only one.
  explicit MessageLink(int peer, uint64_t lasting_id = 0) : peer_(peer), main_(lasting_id) {}

  MessageLink(const MessageLink&) = delete;
  MessageLink& operator=(const MessageLink&) = delete;

  void Post(Transfer* transfer);

  // One whose other end is known to be the peer. Of a link that lasts also in place of another one.
  void Attach(std::unique_ptr<ByteStream> stream);

  // False before, and from when the stream has broken on.
  bool attached() const { return main_.stream.attached(); }

  // The other end of the stream is there, and has all that went before.
  bool settled() const { return attached() && main_.stream.settled(); }

  // Why the last stream is not attached any more.
  const absl::Status& broken() const { return main_.broken; }

  // Nothing will follow what was begun to be said: the other end is told, so that it does not wait for another stream.
  void Leave();

  // Moves what can be moved; true if anything was.
  bool Advance();

  void CloseGroup(uint64_t group_id);

  // As Transport's.
  std::optional<uint64_t> OfferedTag(const StreamId& stream) const;

  // Why the link is of no use any more; Ok while it is.
  const absl::Status& failure() const { return failure_; }

  // There is something that the stream has to have room for.
  bool WantsToWrite() const;

  // There is something to be read that the stream's descriptor does not tell of.
  bool HasUnread() const { return main_.in.HasUnread(); }

  // This side will sleep: sends that could end at once, by a copy of what is not known to have come, do so in the next Advance(). True if
  // there are such.
  bool PrepareToSleep();

  // Of what was begun to be sent all is on the stream, and ending it takes nothing back.
  bool Quiet() const;

 private:
  using MessageKey = std::pair<StreamId, uint64_t>;

  // A message that came ahead of its receive.
  struct Early {
    SaidMessage said;
    bool complete = false;
    std::string bytes;
  };

  bool Fail(absl::Status why);
  bool Broken(const IoResult& result, const char* doing);
  bool SettleStream();
  void EndAcknowledged();
  bool EndKept();

  // Its next part may be written.
  bool MayGo(const Transfer& send) const;
  // It is small, and not told of, and there is no room for it ahead.
  bool IsStuck(const Transfer& send) const;
  void AnnounceStuck();
  bool WriteSome();
  bool TakeUpNext();
  void PickNext();
  void EndPart();
  void Say(LinkFrameType type, const Transfer& transfer);
  void GiveRoom(size_t bytes);
  LinkFrame TakeRoomOwed();
  void Retract(TransferList* list, uint64_t group_id);
  void TakeBackOut();
  void TakeBackIn();

  bool ReadSome();
  void TakeHeader();
  void TellIfWaitedFor();
  void TakeAnnounce();
  void TakeGrant();
  void BeginData();
  void BeginEarly();
  void EndData();
  void TakeEarly(Transfer* receive, const MessageKey& key);

  const int peer_;
  LinkConnection main_;
  absl::Status failure_;
  bool leaves_ = false;
  bool peer_leaves_ = false;
  ClosedGroups closed_;

  TransferList sends_;
  TransferList unacknowledged_;  // written, and not known to have come, or still to be sent
  int looks_in_vain_ = 0;        // since the last that moved something, while there are such
  // What was said of messages whose transfers are not posted here yet.
  std::map<MessageKey, SaidMessage> granted_;
  size_t room_ = kRoomBytes;  // that the other side has for what is sent ahead

  TransferList receives_;
  std::map<MessageKey, SaidMessage> announced_;
  std::map<MessageKey, Early> early_;
  Early* in_early_ = nullptr;  // what is being read goes there
  size_t early_room_ = 0;      // that they take
  size_t room_owed_ =
      0;  // that was taken and is free again, which the other side does not know yet
  bool waited_for_ =
      false;  // the other side is to be told as soon as no more than kKeptOfMessage is left
};

}  // namespace weft
