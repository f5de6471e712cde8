// The half of a link that writes, on one of its streams: frames without data, and parts of messages, each behind its header, straight from
// the memory of transfers.
//
//   out.Say(grant);                              // goes before the next part
//   if (out.idle()) {
//     out.TakeUp();
//     out.BeginPart(header, &send, /*borrows=*/true);
//   }
//   const IoResult result = out.Write();         // again and again
//   if (out.part_ended()) send = out.EndPart();
//
// It also keeps account of what the other side is to be told of what has come here, since every frame tells it.
//
// Thread-safety: none; the transport's lock. The stream and the memory of the part are borrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/net.h"
#include "comm/transport/lasting_stream.h"
#include "comm/transport/link_frame.h"
#include "comm/transport/transfer.h"

namespace weft {

class PartWriter {
 public:
  explicit PartWriter(LastingStream* stream) : stream_(stream) {}

  // Once what was taken up is written.
  void Say(LinkFrame frame) { Append(&control_, frame); }

  bool has_said() const { return !control_.empty(); }

  // All that was taken up is on the stream.
  bool idle() const { return front_done_ == front_.size() && !part_; }

  // While it is idle: what was said is next. Until Write(), more may be.
  void TakeUp();

  bool has_taken_up() const { return !front_.empty(); }

  void SayNow(LinkFrame frame) { Append(&front_, frame); }

  // Before what was taken up.
  void SayFirst(LinkFrame frame);

  // The part that its header tells of. `borrows`: its memory stays as it is until the part is known to have come.
  void BeginPart(const LinkFrame& header, Transfer* send, bool borrows);

  // As the stream's; kWouldBlock as well where nothing is to be written.
  IoResult Write();

  bool part_ended() const { return part_ && front_done_ == front_.size() && left_ == 0; }

  // Whose part is being written; nullptr: none is, or it was retracted.
  Transfer* sending() const { return send_; }

  bool borrows() const { return borrows_; }

  // What sending() was.
  Transfer* EndPart();

  // Memory of the part is read no more: a copy of the rest goes, but for what is under way beside the stream's bytes, which is waited for, a
  // second at most. kDone: it is as it should be, and part_ended() may be true; else the stream is of no use.
  IoResult TakeBack();

  // Nothing of it will be written.
  void Forget();

  // The other side waits to hear what has come.
  void Tell() { tell_ = true; }

  // The same, unless something is said before the next look.
  void TellNext() { tell_next_ = true; }

  void Look() { tell_ = tell_ || tell_next_; }

  // Of what has come, what the other side may keep: once that is much for nothing it is told.
  void CountKept(size_t bytes);

  // More has come than was told.
  bool owes_word() const { return told_ < stream_->received(); }

  bool tells() const { return tell_; }

  bool will_tell() const { return tell_ || tell_next_; }

 private:
  // With what has come until now.
  void Append(std::string* frames, LinkFrame frame);

  LastingStream* const stream_;
  std::string control_;  // frames without data
  // What is being written: frames without data, the header of a part, its data.
  std::string front_;
  size_t front_done_ = 0;
  bool part_ = false;
  bool placed_ = false;  // the part goes beside the bytes
  bool begun_ = false;   // and is under way
  const std::byte* data_ = nullptr;
  bool borrows_ = false;
  size_t left_ = 0;
  Transfer* send_ = nullptr;
  std::string rest_;  // of a retracted one

  bool tell_ = false;
  bool tell_next_ = false;
  size_t untold_ = 0;  // of what may be kept
  uint64_t told_ = 0;  // how much of the stream had come
};

}  // namespace weft
