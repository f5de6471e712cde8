// Measures what a message to another rank costs, by the transport that is used afterwards: LogGP as in comm/select/link_model.h.
//
//   WEFT_ASSIGN_OR_RETURN(LinkCost cost, ProbeLink({.transport = transport, .self = 0, .next = 2, .previous = 4, ...}));
//
// The ranks that take part form a ring: each asks the next one and answers the one before it. What it asks for are rounds, of so many
// messages of so many bytes, which are answered when all have come. The lower quartile of some counts:
//   no message               there and back: twice L + 2 o
//   16 messages of 8 bytes   15 o more, of whichever side takes longer
//   64 KiB to 4 MiB          G: what the larger one of the two largest that there was time for takes more
// Half of the ranks ask at first, and the others when they have been asked, so a port is busy with one round at a time.
//
// Thread-safety: one thread; nobody else moves the transport's messages of that group.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "comm/select/link_model.h"
#include "comm/transport/transport.h"

namespace weft {

struct LinkProbeSettings {
  Transport* transport = nullptr;
  // Numbers in the transport.
  int self = 0;
  int next = 1;
  int previous = 1;
  uint64_t group_id = 0;   // of its messages alone; closed in the end
  bool asks_first = true;  // before it has been asked
  int64_t budget_ns =
      0;  // about what asking takes, if that is enough for a single round of each kind
  int64_t deadline_ns = 0;  // on MonotonicNs's clock
};

// Collective over the ring. TIMEOUT if it has not ended by the deadline; CORRUPT if the other side asks for what is no round.
absl::StatusOr<LinkCost> ProbeLink(const LinkProbeSettings& settings);

}  // namespace weft
