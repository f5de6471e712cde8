// Streams between processes as a seam: TCP and abstract unix sockets, all non-blocking.
//
//   WEFT_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint("tcp:10.0.0.1:29500"));
//   WEFT_ASSIGN_OR_RETURN(int stream, net.Connect(endpoint));   // completes when writable
//   ...
//   net.Poll(items, deadline_ns); net.Read(stream, ...); net.Close(stream);
//
// A handle is a small number that belongs to the Net that gave it; of SystemNet it is a file
// descriptor (close-on-exec, no SIGPIPE). A simulator implements the same class in memory.
// Thread-safety: SystemNet from any thread; one handle from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

struct Endpoint {
  enum class Kind { kUnix, kTcp };
  Kind kind = Kind::kUnix;
  std::string host;  // abstract socket name without the leading NUL; or numeric address or name
  uint16_t port = 0;

  std::string ToString() const;  // "unix:@name", "tcp:10.0.0.1:29500", "tcp:[::1]:29500"
  bool operator==(const Endpoint& other) const = default;
};

// The reverse of ToString(). INVALID_ARGUMENT for anything else.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

enum class IoState { kDone, kWouldBlock, kClosed, kFailed };

struct IoResult {
  IoState state = IoState::kWouldBlock;
  size_t bytes = 0;      // of kDone, at least 1
  int error_number = 0;  // of kFailed
};

struct PollItem {
  int handle = -1;
  bool want_read = false;
  bool want_write = false;
  bool readable = false;  // set by Poll; also on end of file and errors
  bool writable = false;
};

// Who is at the other end. pid and uid are known for unix sockets, else -1.
struct PeerIdentity {
  int64_t pid = -1;
  int64_t uid = -1;
  std::string address;  // for messages
};

// Both ends of a stream, without ports; "" where there is none.
struct StreamAddresses {
  std::string from;
  std::string to;
};

// What a stream has carried, as the system counts it. All zero where it does not.
struct StreamTraffic {
  uint64_t acknowledged_bytes = 0;  // of those written here
  uint64_t received_bytes = 0;
  uint64_t unacknowledged_bytes = 0;  // sent
  uint64_t waiting_bytes = 0;         // not sent yet
  int sent_again = 0;         // how often in a row what is unacknowledged was sent again in vain
  bool answered = false;      // anything came after the last of that
  uint32_t packet_bytes = 0;  // of the largest packet, as far as is known of the way (MTU)
};

class Net {
 public:
  virtual ~Net() = default;

  // Listens on exactly this address; `endpoint->port` 0 is replaced by the port that was chosen.
  // INVALID_ARGUMENT for a wildcard address, and for one that is not this machine's. The host must be numeric (Resolve).
  virtual absl::StatusOr<int> Listen(Endpoint* endpoint) = 0;
  // The next connection, -1 if there is none now.
  virtual absl::StatusOr<int> Accept(int listener) = 0;
  // Starts to connect; UNREACHABLE if it is refused at once. Done when the handle is writable and
  // FinishConnect says Ok. Errors that will not pass are INVALID_ARGUMENT, or IsRefusedCall().
  virtual absl::StatusOr<int> Connect(const Endpoint& endpoint) = 0;
  virtual absl::Status FinishConnect(int stream) = 0;
  virtual IoResult Read(int stream, void* data, size_t bytes) = 0;
  virtual IoResult Write(int stream, const void* data, size_t bytes) = 0;
  virtual PeerIdentity Peer(int stream) = 0;
  virtual void Close(int handle) = 0;

  // The other end of a connected stream reads to the end of what was written; this one goes on to read.
  virtual void FinishWriting(int /*stream*/) {}

  // Nobody is connected with the listener any more, also where a forked child has a copy of it, which would keep the address
  // taken otherwise. Close() follows.
  virtual void StopListening(int /*listener*/) {}

  // Ends the stream, as one that broke, once the machine at its other end has not answered for so long; without it what is sent
  // to a machine that is gone is repeated for a quarter of an hour. A process that does not read for so long looks the same
  // as soon as what is sent to it no longer fits: so this is for protocols in which it must read, never for data. Nothing where
  // a kernel is always there to answer: unix sockets, simulated ones.
  virtual void EndUnanswered(int /*stream*/, int64_t /*after_ns*/) {}

  // How long ago the machine at the other end of a connected stream last answered: sent something, or acknowledged what it was sent or asked. Its
  // system does so whatever the process there does, and is asked each second while nothing else is said. kNotKnownNs where nobody counts.
  static constexpr int64_t kNotKnownNs = INT64_MAX;

  virtual int64_t UnansweredNs(int /*stream*/) { return kNotKnownNs; }

  virtual StreamTraffic Traffic(int /*stream*/) { return {}; }

  virtual StreamAddresses Addresses(int /*stream*/) { return {}; }

  // A forked child of this process has no part in the stream or listener, until Close(): who is at the other end hears when this process ends.
  virtual void KeepFromChildren(int /*handle*/) {}

  // Waits until an item is ready or the deadline has passed (in the past: does not wait).
  virtual absl::Status Poll(std::span<PollItem> items, int64_t deadline_ns) = 0;
};

class SystemNet : public Net {
 public:
  absl::StatusOr<int> Listen(Endpoint* endpoint) override;
  absl::StatusOr<int> Accept(int listener) override;
  absl::StatusOr<int> Connect(const Endpoint& endpoint) override;
  absl::Status FinishConnect(int stream) override;
  IoResult Read(int stream, void* data, size_t bytes) override;
  IoResult Write(int stream, const void* data, size_t bytes) override;
  PeerIdentity Peer(int stream) override;
  void Close(int handle) override;
  void FinishWriting(int stream) override;
  void StopListening(int listener) override;
  void EndUnanswered(int stream, int64_t after_ns) override;
  int64_t UnansweredNs(int stream) override;
  StreamTraffic Traffic(int stream) override;
  StreamAddresses Addresses(int stream) override;
  void KeepFromChildren(int handle) override;
  absl::Status Poll(std::span<PollItem> items, int64_t deadline_ns) override;
};

// True of the error of a Connect() or FinishConnect() that the other machine has refused: nobody
// listens at the address.
bool NobodyListens(const absl::Status& status);

// Whether a numeric address is of the machine that asks: 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& host);

// What a connection that did not come about was answered, without what was attempted: "Connection refused". Of an error of Connect
// or FinishConnect.
std::string ConnectAnswer(const absl::Status& status);

// Keeps an address for a Listen of this process to come, as long as the descriptor is open; connections are refused meanwhile.
// The port 0 and errors are as Listen's.
absl::StatusOr<UniqueFd> ReserveEndpoint(Endpoint* endpoint);

// The numeric address of a host name, or `host` itself if it is one. A name that is not known is waited for, which is logged after
// 2 s: UNREACHABLE at the deadline; TIMEOUT if the resolver has not answered: it finishes on a thread that nobody waits for.
absl::StatusOr<std::string> ResolveHost(const std::string& host, int64_t deadline_ns);

}  // namespace weft
