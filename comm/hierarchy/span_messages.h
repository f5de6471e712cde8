// The messages of one rank of a group over several islands, over its transport: matched as MPI does it, by sender and tag in the order of
// issue on both sides.
//
//   SpanMessages messages({.transport = &transport, .peers = peers, .group_id = id, .rank = 2});
//   messages.Issue(&message);
//   while (!message.done && messages.failed() == nullptr) {
//     messages.Step();
//     transport.Advance();
//   }
//
// A sender numbers its messages to each rank, whatever their tags: message n from a to b is a stream of its own, and its tag goes with
// it. The receiver asks the transport for n = 1, 2, 3, ... of each sender that it needs something of, so it learns of messages in the
// order in which they were issued, though they travel in any. One that it learns of is given to the first receive that asks for it, in
// the order in which these were issued, or is kept as an offer. Only then is its receive posted. A probe waits among the receives: it
// ends when there is an offer that it asks for and that no receive issued before it takes, and takes nothing.
//
// Invariants:
//   (P1) Two messages of one sender are offered in the order of their issue: none of them overtakes another one.
//   (P2) A receive that was issued takes the first offer that fits; so while it waits, no offer fits it.
//   (P3) Of each sender no more is remembered than kSpanSendsMax numbers and tags, and those that came ahead (the transport's bound).
//        Tags leave nothing behind: there is one number per rank and direction, and none per tag.
//
// Another way is to count by sender and tag on both sides: the receive could be posted before its message is known of, which saves a
// large one a way there and back. But tags that are used once would leave counters behind for ever, and a receive from any source could
// not be told from those that are issued after it.
//
// Messages to oneself do not go through the transport: small ones are copied while there is room, so that their sends end at once.
//
// Thread-safety: none; the group's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "comm/engine/sent_traffic.h"
#include "comm/hierarchy/span_message.h"
#include "comm/transport/transport.h"

namespace weft {

// Sends to one rank that the transport has at a time. A program that has more on their way without their being received holds up the
// later ones, also for receives of other tags. Far below what a link takes for an attack.
constexpr size_t kSpanSendsMax = 4096;

class SpanMessages {
 public:
  struct Route {
    Transport* transport = nullptr;
    std::span<const int> peers;  // in the transport, by rank; outlive the object
    uint64_t group_id = 0;
    int rank = 0;
    SentTraffic* traffic =
        nullptr;  // where sends are counted, outlives the object; nullptr: nowhere
  };

  explicit SpanMessages(const Route& route) : route_(route), peers_(route.peers.size()) {}

  SpanMessages(const SpanMessages&) = delete;
  SpanMessages& operator=(const SpanMessages&) = delete;

  // Takes it up. Its arguments were checked.
  void Issue(SpanMessage* message);

  // A probe that is not done is its owner's again.
  void Withdraw(const SpanMessage* probe);

  // Matches what can be matched, and sees what has ended; true if there was anything.
  bool Step();

  // The first one whose other half has another count or type; nullptr: none.
  const SpanMessage* failed() const { return failed_; }

  // The first one that has not ended by now; nullptr: none.
  const SpanMessage* Late(int64_t now_ns) const;

  // The first one that has not ended; nullptr: none.
  const SpanMessage* Oldest() const;

  // The first one that cannot do without the rank; nullptr: none.
  const SpanMessage* Awaiting(int rank) const;

  // All that have not ended are their owner's again. Before that the group was closed in the transport.
  void GiveUpAll();

 private:
  struct Peer {
    uint64_t issued = 0;  // sends to it
    size_t posted = 0;    // of them: in the transport
    std::deque<SpanMessage*> waiting;
    uint64_t offered = 0;  // messages from it that are known of
  };

  // A message that no receive has asked for yet.
  struct Offer {
    int source = -1;
    uint64_t tag = 0;
    uint32_t signature = 0;
    uint64_t bytes = 0;
    uint64_t number = 0;
    SpanMessage* own = nullptr;     // to oneself: the send that waits
    std::vector<std::byte> copied;  // or what it has left
  };

  Peer& At(int rank) { return peers_[static_cast<size_t>(rank)]; }

  int size() const { return static_cast<int>(peers_.size()); }

  void IssueSend(SpanMessage* send);
  void IssueReceive(SpanMessage* receive);
  void SendToSelf(SpanMessage* send);
  void PostSend(SpanMessage* send);
  bool TakeOffers();
  bool TakeOffersOf(int source);
  bool TakeUp(Offer offer);
  static void EndProbe(SpanMessage* probe, const Offer& offer);
  void Match(SpanMessage* receive, Offer offer);
  void MatchOwn(SpanMessage* receive, Offer offer);
  bool Advance(SpanMessage* message);
  Transfer Half(const SpanMessage& message, int peer, uint64_t tag, uint64_t number) const;
  static Transfer FinOf(const Transfer& data);

  const Route route_;
  std::vector<Peer> peers_;              // by rank
  std::vector<SpanMessage*> under_way_;  // in the order of issue
  std::deque<SpanMessage*> unmatched_;   // of them: receives without a message
  std::list<Offer> offers_;              // in the order in which they became known
  size_t copied_bytes_ = 0;              // in offers_
  int first_asked_ = 0;                  // so that each rank is the first one in turn
  std::vector<bool> wanted_;             // by rank: somebody receives from it
  const SpanMessage* failed_ = nullptr;
};

// What both sides of a message must have alike besides its size, as a number; and back: the elements of a message of that size.
uint32_t MessageSignature(weft_dtype_t dtype);
std::string ElementsOfSignature(uint32_t signature, uint64_t bytes);

}  // namespace weft
