// The half of a link that reads, on one of its streams: a header, then the data of a part, straight into the memory of transfers. Data
// comes in together with the header behind it.
//
//   const IoResult result = in.Read();
//   if (in.part_came()) receive = in.EndPart();
//   if (in.TakeHeader()) ... in.header() ...; in.BeginPart(); in.Into(memory, receive);
//
// Thread-safety: none; the transport's lock. The stream and the memory of the part are borrowed.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/net.h"
#include "comm/transport/lasting_stream.h"
#include "comm/transport/link_frame.h"
#include "comm/transport/transfer.h"

namespace weft {

class PartReader {
 public:
  explicit PartReader(LastingStream* stream) : stream_(stream) {}

  // As the stream's.
  IoResult Read();

  // A header is complete; header() is it from now on. Where part_came(), that comes first.
  bool TakeHeader();

  // The one that was taken last, of the part that is being read if there is one.
  const LinkFrame& header() const { return header_; }

  // Its data comes next; unless it is told where to, that is thrown away.
  void BeginPart();

  void Into(std::byte* data, Transfer* receive = nullptr) {
    data_ = data;
    receive_ = receive;
  }

  bool part_came() const { return part_ && left_ == 0; }

  // Into whose memory the part is read; nullptr: into no transfer's.
  Transfer* receiving() const { return receive_; }

  // What receiving() was.
  Transfer* EndPart();

  // How much of the part is still to come.
  size_t left() const { return left_; }

  // Memory of the part is written no more. kDone: it is so, and part_came() may be true; else the stream is of no use.
  IoResult TakeBack();

  // Nothing more of it will come.
  void Forget() {
    left_ = 0;
    next_done_ = 0;
    (void)EndPart();
  }

  // There is something to be read that the stream's descriptor does not tell of.
  bool HasUnread() const {
    return placed_ && part_ ? stream_->attached() && !begun_ : stream_->HasUnread();
  }

 private:
  IoResult ReadPlaced();

  LastingStream* const stream_;
  LinkFrame next_;  // as far as it has come
  size_t next_done_ = 0;
  LinkFrame header_;
  bool part_ = false;
  bool placed_ = false;  // the part comes beside the bytes
  bool begun_ = false;   // and is under way
  std::byte* data_ = nullptr;
  size_t left_ = 0;
  Transfer* receive_ = nullptr;
  std::vector<std::byte> sink_;  // for what is thrown away; empty until there is any
};

}  // namespace weft
