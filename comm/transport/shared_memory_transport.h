// Messages between the ranks of one island, over memory that all of them have mapped: a ring for each ordered pair.
//
//   std::byte* const memory = ...;                                   // BytesFor(3) bytes, at any address in each process
//   if (place == 0) SharedMemoryTransport::Clear(memory, 3);         // before any other rank goes on
//   WEFT_ASSIGN_OR_RETURN(auto transport, SharedMemoryTransport::Make(seams, {.memory = memory, .ranks = {0, 2, 5}, .self = 2}));
//
// What is said in the rings is what TCP carries (message_link.h), so a rank that is late costs its peers no memory, and nobody waits
// behind a message that is not awaited. The memory of all rings has a bound, so the more ranks, the smaller each: 1 MiB for up to
// 4 ranks, 256 KiB for 8, 64 KiB for 16, 4 KiB for 64. A rank that sleeps is woken through a socket (doorbell.h).
//
// Others see that a rank leaves; that its process was killed is found when somebody rings for it, or not at all, since
// who lives is for the agents to say. What such a process was writing stays unseen.
//
// Thread-safety: as Transport. The memory is borrowed until this rank leaves, and not touched by a forked child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/seams.h"
#include "comm/transport/doorbell.h"
#include "comm/transport/message_link.h"
#include "comm/transport/ring_stream.h"
#include "comm/transport/transport.h"

namespace weft {

struct SharedMemorySettings {
  std::byte* memory = nullptr;  // aligned to 128
  std::vector<int> ranks;       // of the island, as peers are numbered, in ascending order
  int self = 0;                 // one of them
};

class SharedMemoryTransport : public Transport {
 public:
  static constexpr int kRanksMax = Doorbell::kRanksMax;

  // For 1 to kRanksMax ranks.
  static size_t BytesFor(int size);
  static size_t RingBytesFor(int size);

  // Makes it memory in which nobody has said anything. By one rank, before any is made.
  static void Clear(std::byte* memory, int size);

  // UNSUPPORTED for more than kRanksMax ranks; SYSTEM_ERROR without a socket.
  static absl::StatusOr<std::unique_ptr<SharedMemoryTransport>> Make(
      const Seams& seams, const SharedMemorySettings& settings);
  SharedMemoryTransport(const SharedMemoryTransport&) = delete;
  SharedMemoryTransport& operator=(const SharedMemoryTransport&) = delete;
  ~SharedMemoryTransport() override;

  void Post(Transfer* transfer) override;
  bool Advance() override;
  void CloseGroup(uint64_t group_id) override;
  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override;
  std::vector<LinkEvent> TakeEvents() override;
  void AppendPollItems(std::vector<PollItem>* items) override;
  void Leave() override;

 private:
  // What there is for another rank of the island.
  struct Peer {
    int rank = 0;
    int place = 0;  // its number on the island
    std::unique_ptr<MessageLink> link;
    RingStream* stream = nullptr;  // the link's, while that is attached
    bool reported = false;         // that the link is lost
  };

  SharedMemoryTransport(const Seams& seams, const SharedMemorySettings& settings,
                        std::unique_ptr<Doorbell> bell);

  Peer& PeerOf(int rank) WEFT_REQUIRES(mutex_);
  bool AllQuiet() WEFT_REQUIRES(mutex_);

  const Seams seams_;
  const int size_;
  const int pid_;
  Mutex mutex_;
  const std::unique_ptr<Doorbell> bell_ WEFT_GUARDED_BY(mutex_);
  std::vector<Peer> peers_ WEFT_GUARDED_BY(mutex_);  // ascending; none once it has left
  bool left_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<LinkEvent> events_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
