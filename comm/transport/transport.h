// Moves messages between this rank and others: by whatever reaches them.
//
//   transport->Post(&transfer);                   // never waits
//   while (transfer.state() == TransferState::kPosted) transport->Advance();
//   for (const LinkEvent& event : transport->TakeEvents()) ...
//   if (const auto offered = transport->Offered(peer, stream)) ...   // there is something to receive
//   transport->AppendPollItems(&items);           // and sleep on them
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

// What a connection with a peer has carried.
struct LinkTraffic {
  int peer = -1;
  int connection = 0;  // its number, of those with the peer
  StreamAddresses addresses;
  StreamTraffic stream;
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

  // Of a stream with one message from `peer`: what it is, if it is known of and no receive was posted for it here; else nothing. Who asks
  // can be reached from then on: a connection with the peer is made if need be.
  virtual std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) = 0;

  // Links that were lost since the last call.
  virtual std::vector<LinkEvent> TakeEvents() = 0;

  // Of all connections that there are, where the system counts it: for whoever asks why something takes so long.
  virtual void AppendTraffic(std::vector<LinkTraffic>* /*traffic*/) {}

  // What to sleep on, for one poll: as soon as Advance() has something to do one of these is ready, also if it had before this call or
  // gets it between this call and the poll. So nobody has to look once more. Not counted is what another thread posts meanwhile, for that
  // one advances, nor what Advance() does when it is time, as to dial again. Sleeps are bounded by the caller: that a process was killed makes nothing ready on every transport. Items may be ready
  // without need, once each. None of a transport in one process, whose callers do not sleep.
  virtual void AppendPollItems(std::vector<PollItem>* items) = 0;

  // Memory that it was given to work in is its owner's again: what was begun to be said is said first, within a second; from here on
  // nothing is moved, and what is posted is kRetracted. Once all groups are closed. Part of its destruction anyway; nothing where
  // there is no such memory.
  virtual void Leave() {}
};

}  // namespace weft
