// One of the streams of a link, with the two halves of what goes over it.
//
// Of one that carries parts of messages beside the main one it is known which parts are on it, so that a send ends when all of them have
// come, and those that have not go another way when it is given up.
//
// Thread-safety: none; the transport's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "comm/transport/lasting_stream.h"
#include "comm/transport/part_reader.h"
#include "comm/transport/part_writer.h"
#include "comm/transport/transfer.h"

namespace weft {

// A part of a message that goes over a connection beside the main one.
struct LentPart {
  Transfer* send = nullptr;  // nullptr: it was retracted
  size_t offset = 0;
  size_t bytes = 0;
  uint64_t until = UINT64_MAX;  // where on the stream it ends, once it is written
};

struct LinkConnection {
  explicit LinkConnection(uint64_t lasting_id) : stream(lasting_id), out(&stream), in(&stream) {}

  LinkConnection(const LinkConnection&) = delete;
  LinkConnection& operator=(const LinkConnection&) = delete;

  ~LinkConnection() { stream.Drop(); }  // before what it may still send from

  // Parts that are known to have come are lent no more.
  void EndLent() {
    while (!lent.empty() && lent.front().until <= stream.acknowledged()) {
      if (lent.front().send != nullptr) --lent.front().send->lent;
      lent.pop_front();
    }
  }

  // Its memory is given back: what is not known to have come is copied.
  void Own(Transfer* send) {
    stream.Own(send->memory, send->bytes);
    for (LentPart& part : lent) {
      if (part.send != send) continue;
      part.send = nullptr;
      --send->lent;
    }
  }

  // Of no use any more, where the other end has read `come` bytes of it: the parts that have not come, which are still lent.
  std::vector<LentPart> TakeMissing(uint64_t come) {
    std::vector<LentPart> missing;
    for (const LentPart& part : lent) {
      if (part.send == nullptr) continue;
      if (part.until <= come) {
        --part.send->lent;
      } else {
        missing.push_back(part);
      }
    }
    lent.clear();
    return missing;
  }

  LastingStream stream;
  PartWriter out;
  PartReader in;
  absl::Status broken;        // why what carried the stream last does not any more
  std::deque<LentPart> lent;  // in their order; none of the main one
  bool given_up = false;      // not of the main one: no stream will follow
};

}  // namespace weft
