// Moves messages between this rank and ranks that share no memory with it.
//
//   transport->Post(&transfer);                   // never waits, never allocates
//   while (transfer.state() == TransferState::kPosted) transport->Advance();
//   for (const LinkEvent& event : transport->TakeEvents()) ...
//   if (const std::optional<uint64_t> tag = transport->OfferedTag(peer, stream)) ...   // there is something to receive
//   transport->CloseGroup(group_id);              // whatever was posted for it is given back at once
//
// Peers are numbered as in the group that the transport was made with. Data goes only where there is room for it: into a receive
// that was posted and is known to the sender, or, if it is small, into a bounded buffer of the receiver's. So a rank that is late
// costs memory to nobody, and holds up nothing but what it is waited for with.
//
// Whatever is posted to be sent becomes known to its receiver, posted there or not: small messages that there is no room for are
// announced like large ones.
//
// A link that is lost is an event and not a verdict: who lives is for the agents to say (comm/agent). What was posted on it
// stays posted until its group is closed.
//
// Thread-safety: any thread. Transfers and their memory are borrowed while they are kPosted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/net.h"
#include "comm/transport/transfer.h"

namespace weft {

struct LinkEvent {
  int peer = -1;
  absl::Status why;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual void Post(Transfer* transfer) = 0;

  // Moves what can be moved without waiting; true if anything was.
  virtual bool Advance() = 0;

  // From here on nothing is moved for the group: its transfers are kRetracted, their memory is their owner's again, and what
  // still comes for it is thrown away.
  virtual void CloseGroup(uint64_t group_id) = 0;

  // Of a stream with one message from `peer`: its tag, if it is known of and no receive was posted for it here; else nothing. Who asks
  // can be reached from then on: a connection with the peer is made if need be.
  virtual std::optional<uint64_t> OfferedTag(int peer, const StreamId& stream) = 0;

  // Links that were lost since the last call.
  virtual std::vector<LinkEvent> TakeEvents() = 0;

  // What to sleep on: when one of these is ready, Advance() has something to do. Nothing that a transport in memory needs.
  virtual void AppendPollItems(std::vector<PollItem>* items) const = 0;
};

}  // namespace weft
