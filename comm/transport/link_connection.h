// One of the streams of a link, with the two halves of what goes over it.
//
// Thread-safety: none; the transport's lock.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "comm/transport/lasting_stream.h"
#include "comm/transport/part_reader.h"
#include "comm/transport/part_writer.h"

namespace weft {

struct LinkConnection {
  explicit LinkConnection(uint64_t lasting_id) : stream(lasting_id), out(&stream), in(&stream) {}

  LinkConnection(const LinkConnection&) = delete;
  LinkConnection& operator=(const LinkConnection&) = delete;

  ~LinkConnection() { stream.Drop(); }  // before what it may still send from

  LastingStream stream;
  PartWriter out;
  PartReader in;
  absl::Status broken;  // why what carried the stream last does not any more
};

}  // namespace weft
