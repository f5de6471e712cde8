// Messages over UCX: what RDMA adapters carry between nodes, or TCP where there are none.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<UcxPort> port, UcxPort::Open({}));      // its address is told to the others
//   auto transport = UcxTransport::Make(seams, std::move(port), {.secret = secret, .self = 1, .addresses = addresses});
//
// What is said between two ranks is what TCP carries (message_link.h); large parts go from memory into memory, as UCX does it best. A
// connection is made when the first transfer needs it, by either rank. That a peer has died is told by UCX, if it finds out; who lives is for the
// agents to say.
//
// Closing a group waits for parts of it that are under way, for a second at most: memory that an adapter works in cannot be taken from it.
// The link of a peer that does not move by then is broken.
//
// Thread-safety: as Transport. Threads: UCX may have one of its own for its connections. Left alone by a forked child.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/seams.h"
#include "comm/transport/message_link.h"
#include "comm/transport/transport.h"
#include "comm/transport/ucx/ucx_line.h"
#include "comm/transport/ucx/ucx_port.h"

namespace weft {

struct UcxSettings {
  std::string secret;  // of the job
  int self = 0;
  std::vector<std::string> addresses;  // by rank: of their ports
};

class UcxTransport : public Transport, private UcxListener {
 public:
  // SYSTEM_ERROR without a descriptor.
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Make(const Seams& seams,
                                                            std::unique_ptr<UcxPort> port,
                                                            UcxSettings settings);
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;
  ~UcxTransport() override;

  void Post(Transfer* transfer) override;
  bool Advance() override;
  void CloseGroup(uint64_t group_id) override;
  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override;
  std::vector<LinkEvent> TakeEvents() override;
  void AppendPollItems(std::vector<PollItem>* items) override;

 private:
  // What there is for a peer.
  struct Peer {
    std::unique_ptr<UcxLine> line;      // from its or our first word on
    std::unique_ptr<MessageLink> link;  // from the first transfer, or when it was heard
    bool reported = false;              // that the link is lost
  };

  UcxTransport(const Seams& seams, std::unique_ptr<UcxPort> port, UcxSettings settings,
               UniqueFd ready);

  // Called while the port is moved, so with the lock, which the compiler cannot see.
  void Heard(std::string_view bytes) override WEFT_NO_THREAD_SAFETY_ANALYSIS;
  void Lost(uint64_t number, std::string_view why) override WEFT_NO_THREAD_SAFETY_ANALYSIS;

  UcxLine& LineOf(int number) WEFT_REQUIRES(mutex_);
  MessageLink& LinkOf(int number) WEFT_REQUIRES(mutex_);
  bool Move() WEFT_REQUIRES(mutex_);
  bool AllQuiet() WEFT_REQUIRES(mutex_);
  bool AllParted() WEFT_REQUIRES(mutex_);
  bool IsRestless() WEFT_REQUIRES(mutex_);
  // Moves, or waits for a moment if nothing can be.
  void Turn() WEFT_REQUIRES(mutex_);
  void Part() WEFT_REQUIRES(mutex_);

  const Seams seams_;
  const UcxSettings settings_;
  const UniqueFd ready_;  // always readable
  Mutex mutex_;
  const std::unique_ptr<UcxPort> port_ WEFT_GUARDED_BY(mutex_);
  std::vector<Peer> peers_ WEFT_GUARDED_BY(mutex_);
  std::vector<LinkEvent> events_ WEFT_GUARDED_BY(mutex_);
  // Of sleeps that ended at once though nothing had come.
  int64_t slept_ns_ WEFT_GUARDED_BY(mutex_) = 0;
  bool moved_ WEFT_GUARDED_BY(mutex_) = false;
  int restless_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft
