// One send, receive or probe of a rank of a group over several islands, under way: a value of its work's.
//
//   SpanMessage message(send, deadline_ns);
//   messages.Issue(&message);                  // borrowed until it is done, or all are given up
//   ... messages.Step(), transport.Advance() ...
//   if (message.done) ...
//
// Thread-safety: under the group's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/group/message.h"
#include "comm/recorder/message_ring.h"
#include "comm/transport/transfer.h"

namespace weft {

struct SpanMessage {
  SpanMessage(const Message& of, int64_t until_ns)
      : message(of), bytes(MessageBytes(of)), deadline_ns(until_ns) {}

  SpanMessage(const SpanMessage&) = delete;
  SpanMessage& operator=(const SpanMessage&) = delete;

  // A send ends when the receiver has all of it, and is told so; else when the transport has taken it.
  bool has_fin() const { return bytes > WEFT_EAGER_BYTES; }

  // Whom it waits for; WEFT_ANY_SOURCE: whoever sends first.
  int awaited() const { return source >= 0 ? source : message.peer; }

  const Message message;
  const size_t bytes;
  const int64_t deadline_ns;
  int source = -1;     // of a receive: whose message it was matched with; -1: none yet
  MessageFacts facts;  // and what it is; what a probe has found
  Transfer data;       // of a receive: once it was matched
  Transfer fin;        // the other way: the receiver has it
  bool done = false;
  MessageRing::Place recorded;
};

}  // namespace weft
