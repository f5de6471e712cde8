// Two-way bytes that outlive the connections which carry them: each byte comes once and in its place, however often a connection breaks
// and is made again.
//
//   LastingStream stream(/*id=*/random);
//   stream.Attach(std::make_unique<SocketStream>(std::move(fd)));
//   if (!stream.settled()) status = stream.Settle(&moved);
//   stream.Write({.frames = header, .data = x, .borrows = false});
//   ... broken: stream.Drop(); and later stream.Attach(another one) ...
//
// Both ends count what they have read. That is the first that they say on a connection, before anything of the stream, and who has
// sent more than has come writes the rest again. What has come is said in the stream as well, by its owner (received(),
// Acknowledge()), so that little has to be kept: copies of small things, and of large ones where they lie, until they have come.
//
//     hello = magic, version, id of who says it, id of the other one if it is known, received     on each connection, each way
//
// Without an id it lasts as long as its one connection, keeps nothing and says no hello: for memory, which does not break.
//
// Invariants:
//   (L1) Nothing of the stream is written on a connection before it is known what has come, unless nothing was ever written.
//   (L2) received() counts what Read has given away, and nothing that was read ahead: that is sent again.
//
// Thread-safety: none; its owner's. Memory that is borrowed stays as it is until it has come or Own() has been called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <sys/uio.h>

#include "absl/status/status.h"
#include "base/net.h"
#include "comm/transport/byte_stream.h"
#include "comm/transport/sent_bytes.h"

namespace weft {

// What is to be written, in this order: frames, which are kept, and data, which is kept too or lies where it is until it has come.
struct OutgoingBytes {
  std::span<const char> frames;
  std::span<const std::byte> data;
  bool borrows = false;
};

class LastingStream {
 public:
  explicit LastingStream(uint64_t id = 0) : id_(id) {}

  bool lasting() const { return id_ != 0; }

  // From here on this one carries it, in place of the one that did.
  void Attach(std::unique_ptr<ByteStream> carrier);

  bool attached() const { return carrier_ != nullptr; }

  // The connection is of no use any more; another one may follow.
  void Drop() { carrier_.reset(); }

  // None will follow: nothing is kept or borrowed any more.
  void End();

  // On this connection there is nothing left to be said or heard before the stream, and nothing to be written again.
  bool settled() const { return settled_; }

  // Towards that; while it is attached. kDone: it is. `*wrong` is CORRUPT if the other end is not the one that it was, or has got
  // what was not sent: then no connection with it is of use.
  IoResult Settle(absl::Status* wrong);

  // kWouldBlock as well where what was written before has to be written again first.
  IoResult Write(const OutgoingBytes& bytes);
  IoResult Read(std::span<const iovec> pieces);

  // Write would move something if there were room.
  bool MayWrite() const { return settled_ || (attached() && hello_left_ == 0 && again_end_ == 0); }

  // It has something to say itself that there is no room for.
  bool WantsToWrite() const;

  bool HasUnread() const { return attached() && carrier_->HasUnread(); }

  // All has left this process's hands, or has come.
  bool Flushed() const;

  // Parts beside the bytes (byte_stream.h), which a stream that lasts has not.
  PlacedParts placed() const {
    return attached() && !lasting() ? carrier_->placed() : PlacedParts{};
  }

  IoResult SendPart(const std::byte* memory, size_t bytes) {
    return carrier_->SendPart(memory, bytes);
  }

  IoResult ReceivePart(std::byte* memory, size_t bytes) {
    return carrier_->ReceivePart(memory, bytes);
  }

  IoResult TakeBackSend() { return carrier_->TakeBackSend(); }

  IoResult TakeBackReceive() { return carrier_->TakeBackReceive(); }

  bool HasRoom() const { return attached() && carrier_->HasRoom(); }

  bool Sent() const { return !attached() || carrier_->Sent(); }

  // How many bytes have been read.
  uint64_t received() const { return received_; }

  uint64_t sent() const { return sent_.end(); }

  uint64_t acknowledged() const { return sent_.acknowledged(); }

  size_t kept_bytes() const { return sent_.kept_bytes(); }

  // The other end has said, at some time, that so much has come. False if that cannot be.
  bool Acknowledge(uint64_t position);

  // Memory is given back: what is borrowed of it is copied.
  void Own(const std::byte* memory, size_t bytes) { sent_.Own(memory, bytes); }

 private:
  struct Hello {
    uint32_t magic = 0;
    uint32_t version = 0;
    uint64_t id = 0;
    uint64_t other_id = 0;  // 0: not known yet
    uint64_t received = 0;
  };

  IoResult SayHello();
  IoResult HearHello();
  absl::Status Judge();
  IoResult WriteAgain();

  const uint64_t id_;
  std::unique_ptr<ByteStream> carrier_;
  uint64_t other_id_ = 0;
  uint64_t received_ = 0;
  SentBytes sent_;
  bool settled_ = false;
  Hello said_;
  Hello heard_;
  size_t hello_left_ = 0;  // of said_
  size_t hello_come_ = 0;  // of heard_
  // What is still to be written again: all that was written before this connection and has not come.
  uint64_t again_ = 0;
  uint64_t again_end_ = 0;
};

}  // namespace weft
