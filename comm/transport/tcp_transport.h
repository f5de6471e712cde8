// Messages over TCP, a connection for each pair of ranks that have something to say to each other, and several where much of it is large.
//
//   WEFT_ASSIGN_OR_RETURN(UniqueFd address, ReserveEndpoint(&endpoint));      // told to the others before
//   WEFT_ASSIGN_OR_RETURN(auto transport, TcpTransport::Make(seams, {.secret = secret, .self = 1, .endpoints = {{first}, {second}}}));
//
// A rank listens at one endpoint for each of its rails, networks that a pair of ranks has in common: as many as both have. Their first
// connection goes over the first rail. When they have had 1 MiB of large messages, others are made beside it, `streams` over each rail, up to
// kLinkConnectionsMax in all; these carry parts of large messages, each as many as it has room for (message_link.h). One that cannot be made,
// or is broken for too long, is done without.
//
// Connections are made when the first transfer needs them: the lower rank of the two dials, again and again until it is answered
// or `connect_ns` has passed without its machine having taken the connection. A rank that is late to answer is waited for, and so is
// who is to dial: whether they live is for others to say. Both sides prove that they know the job's secret before anything else is read
// (comm/rendezvous/link_handshake.h); what goes over the link afterwards is neither sealed nor encrypted.
//
// A connection that breaks is made again in the same way, unless the other side has said that it leaves, and nothing is lost or comes twice
// (lasting_stream.h). The link is lost if its machine has not taken a connection for `again_ns`. Who is dialled waits.
//
// The socket of the first connection has no TCP_USER_TIMEOUT: a rank that is stopped does not read, and to the kernel looks the same as one
// that is gone. Those beside it have one, since nobody else notices when their rail is gone: to break and to be made again harms none.
//
// Thread-safety: as Transport. Owns its sockets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/net.h"
#include "base/seams.h"
#include "comm/rendezvous/link_handshake.h"
#include "comm/transport/message_link.h"
#include "comm/transport/transport.h"

namespace weft {

struct TcpSettings {
  std::string secret;  // of the job
  int self = 0;
  std::vector<std::vector<Endpoint>> endpoints;  // by rank and rail; where each listens
  std::vector<std::string> choices;  // by rank, how these were chosen, for messages; or none
  int streams = 1;                   // of each rail, between two ranks
  int64_t connect_ns = 20'000'000'000;
  int64_t again_ns = 10'000'000'000;
};

class TcpTransport : public Transport {
 public:
  // Listens at its own endpoint. SYSTEM_ERROR if it cannot.
  static absl::StatusOr<std::unique_ptr<TcpTransport>> Make(const Seams& seams,
                                                            TcpSettings settings);

  // That two ranks may have with each other, over the rails that both have.
  static int ConnectionsOver(int rails, int streams) {
    return std::min(rails * std::max(streams, 1), kLinkConnectionsMax);
  }

  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;
  ~TcpTransport() override;

  void Post(Transfer* transfer) override;
  bool Advance() override;
  void CloseGroup(uint64_t group_id) override;
  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override;
  std::vector<LinkEvent> TakeEvents() override;
  void AppendTraffic(std::vector<LinkTraffic>* traffic) override;
  void AppendPollItems(std::vector<PollItem>* items) override;

 private:
  // A connection whose other end has not proven itself yet.
  struct Greeting {
    UniqueFd fd;
    int peer = -1;  // dialled; -1: who that is will be said
    int connection = 0;
    bool connecting = false;
    int64_t deadline_ns = 0;
    LinkHandshake handshake;
    std::string in;
    std::string out;
  };

  // What carries a connection with a peer, now or later.
  struct Line {
    int handle = -1;  // of its socket, while it is attached
    StreamAddresses addresses;
    bool dialling = false;
    int64_t dial_ns = 0;     // when to dial next; 0: it is not to
    int64_t give_up_ns = 0;  // or then
    bool connected = false;  // its machine has taken the connection that was dialled
    bool again = false;      // one that was there has not been mended since
    uint64_t progress = 0;   // MessageLink::Progress() when it broke
    int64_t settled_ns = 0;  // since when it is settled once more
    int64_t pause_ns = 0;
    absl::Status why;  // the last attempt to make it failed

    // It is neither polled nor dialled again.
    void DoWithout() {
      *this = Line();
      give_up_ns = INT64_MAX;
    }

    bool done_without() const { return give_up_ns == INT64_MAX; }
  };

  // What is there for a peer.
  struct Peer {
    std::unique_ptr<MessageLink> link;  // from the first transfer on
    Line main;
    std::vector<Line> beside;  // connections 1, 2, ...
    bool reported = false;     // that the link is lost

    Line& line(int connection) {
      return connection == 0 ? main : beside[static_cast<size_t>(connection) - 1];
    }

    int connections() const { return 1 + static_cast<int>(beside.size()); }
  };

  TcpTransport(const Seams& seams, TcpSettings settings, std::vector<int> listeners, uint64_t id);

  void Flush();
  void AdvanceUntilQuiet(int64_t until_ns);
  MessageLink& LinkOf(int peer) WEFT_REQUIRES(mutex_);
  int RailsWith(int number) const;
  const Endpoint& EndpointOf(int number, int connection) const;
  std::string Place(int number, int connection) const;
  std::string Name(int number, int connection) const;
  bool AcceptAll() WEFT_REQUIRES(mutex_);

  bool Dials(int number) const { return settings_.self < number; }

  void Forgive(int64_t now_ns) WEFT_REQUIRES(mutex_);

  // True if a line that was there is not attached any more, or one that is to be made cannot be.
  bool LookAfter(int number, int connection, int64_t now_ns) WEFT_REQUIRES(mutex_);
  void LookAfterBeside(int number, int64_t now_ns) WEFT_REQUIRES(mutex_);
  void Lost(int number, int connection, int64_t now_ns) WEFT_REQUIRES(mutex_);
  absl::Status GivenUp(int number) WEFT_REQUIRES(mutex_);
  void LeaveAll();
  void LogShares() WEFT_REQUIRES(mutex_);
  void DialDue(int64_t now_ns) WEFT_REQUIRES(mutex_);
  void Dial(int number, int connection) WEFT_REQUIRES(mutex_);
  void DialAgain(int number, int connection, const absl::Status& why) WEFT_REQUIRES(mutex_);
  bool AdvanceGreetings() WEFT_REQUIRES(mutex_);
  absl::Status AdvanceGreeting(Greeting* greeting, bool* moved) WEFT_REQUIRES(mutex_);
  absl::Status ReadGreeting(Greeting* greeting, bool* moved) WEFT_REQUIRES(mutex_);
  absl::Status Introduce(Greeting* greeting) WEFT_REQUIRES(mutex_);

  const Seams seams_;
  const TcpSettings settings_;
  const std::vector<int> listeners_;  // by rail
  const uint64_t id_;                 // of this end of all links
  const bool may_have_more_;          // connections with a peer than one
  const pid_t pid_ = getpid();
  Mutex mutex_;
  int64_t looked_ns_ WEFT_GUARDED_BY(mutex_) = 0;  // when Advance() was last called
  int64_t accept_ns_ WEFT_GUARDED_BY(mutex_) = 0;  // when to ask for new connections next
  std::vector<Peer> peers_ WEFT_GUARDED_BY(mutex_);
  std::vector<Greeting> greetings_ WEFT_GUARDED_BY(mutex_);
  std::vector<LinkEvent> events_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
