// Waking ranks of an island that sleep in poll(): a word in memory that all have mapped says that a rank may sleep, a datagram to its
// socket ends that.
//
//   bell->Arm();                                     // who is about to sleep; then it looks once more
//   items.push_back(bell->Item(/*now=*/has_work));   // and polls
//   bell->Ring(3);                                   // who has published something for rank 3: one load if that is awake
//
// No ring is lost. The sleeper says that it may sleep before it looks a last time; who rings has published before it looks whether
// anybody sleeps; all of that is seq_cst, so one of the two sees the other. Of several threads that sleep, and of others that work
// meanwhile, nobody takes a ring away from another one, since
//   (D1) the word is set by Arm() alone and cleared by whoever rings alone, who then sends a datagram, and
//   (D2) datagrams are taken out by Arm() alone, before it sets the word:
// as long as a thread sleeps, there is a datagram in the socket, or on its way, or the word is set, or a thread is between the two
// halves of Arm() and will look for all. So each Arm() costs one datagram at most.
//
// A process that is killed between those takes a ring along: sleeps are bounded, as those must be that look for deaths.
//
// A ring that the system has no memory for is owed; a socket that is not there any more means that its process has gone.
//
// Thread-safety: the transport's lock. Places are borrowed, one for each rank of the island, all zero at first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/net.h"
#include "base/seams.h"

namespace weft {

class Doorbell {
 public:
  static constexpr int kRanksMax = 64;

  // A rank's; all but the words is constant once `asleep` or `left` was ever set.
  struct alignas(128) Place {
    static constexpr size_t kNameBytes = 26;

    std::atomic<uint32_t> asleep;
    std::atomic<uint32_t> left;
    char name[kNameBytes];  // of its socket, in the abstract namespace
  };

  // SYSTEM_ERROR without a socket.
  static absl::StatusOr<std::unique_ptr<Doorbell>> Make(Place* places, int self, Random& random);

  void Arm();

  // `now`: there is something to do already.
  PollItem Item(bool now) const {
    return {.handle = socket_.get(), .want_read = true, .want_write = now};
  }

  // What was published before must have been stored seq_cst.
  void Ring(int place) {
    if (places_[place].asleep.load(std::memory_order_seq_cst) != 0) Wake(place);
  }

  // Whether that process is still there, by a datagram that it did not ask for.
  void Probe(int place) { Send(place); }

  // Rings again where that is owed.
  void PayOwed();

  bool owes() const { return owed_ != 0; }

  // This rank touches the island's memory no more. Wakes all others.
  void Leave(int size);

  // It has left, or its process has gone.
  bool Gone(int place) const {
    return (gone_ >> place & 1) != 0 || places_[place].left.load(std::memory_order_seq_cst) != 0;
  }

 private:
  Doorbell(Place* places, int self, UniqueFd socket)
      : places_(places), self_(self), socket_(std::move(socket)) {}

  void Wake(int place);
  void Send(int place);

  Place* const places_;
  const int self_;
  const UniqueFd socket_;
  uint64_t owed_ = 0;  // bits, by place
  uint64_t gone_ = 0;
};

}  // namespace weft
