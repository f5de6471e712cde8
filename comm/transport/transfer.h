// One message of an operation, from a rank's memory into another's: a value of its owner's, which a transport links into its lists.
//
//   Transfer send{.peer = 3, .stream = {group_id, 411}, .tag = 0, .signature = signature, .is_send = true,
//                 .memory = x, .bytes = n};
//   transport.Post(&send);
//   ... transport.Advance() ...
//   if (send.state() == TransferState::kDone) ...
//
// A send and the receive that it goes into have the same stream, tag and signature, and as many bytes. Order does not
// matter: either may be posted first, and messages of one stream may overtake each other.
//
// Thread-safety: the owner's until it is posted, the transport's until it is no longer kPosted.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace weft {

// What an operation shows of itself to the other side, to be told of where the two differ: its owner's, no transport looks into it.
// All zero: messages of the stream have no call, and no signature, in common.
using CallRecord = std::array<uint64_t, 4>;

// An operation of a group.
struct StreamId {
  uint64_t group_id = 0;
  uint64_t sequence = 0;

  friend bool operator==(const StreamId&, const StreamId&) = default;

  friend bool operator<(const StreamId& a, const StreamId& b) {
    return std::tie(a.group_id, a.sequence) < std::tie(b.group_id, b.sequence);
  }
};

// What is known of a message that was posted to be sent here.
struct OfferedMessage {
  uint64_t tag = 0;
  uint32_t signature = 0;
  uint64_t bytes = 0;
};

// kMismatch: the other side's call is another one; other_signature, other_bytes and other_record are its. kRetracted: its group was closed.
enum class TransferState : uint8_t { kIdle, kPosted, kDone, kMismatch, kRetracted };

struct Transfer {
  int32_t peer = -1;
  StreamId stream;
  uint64_t tag = 0;  // tells messages from one of the two to the other in the stream apart
  uint32_t signature = 0;
  CallRecord record = {};
  bool is_send = false;
  std::byte* memory = nullptr;  // only read by a send
  size_t bytes = 0;

  uint32_t other_signature = 0;
  uint64_t other_bytes = 0;
  CallRecord other_record = {};

  // Any thread.
  TransferState state() const {
    return std::atomic_ref(const_cast<TransferState&>(state_now)).load(std::memory_order_acquire);
  }

  // The transport's, which sets the state last.
  void SetState(TransferState state) {
    std::atomic_ref(state_now).store(state, std::memory_order_release);
  }

  // Its other half is known to be posted: what is left is for what carries it. Any thread; the transport sets it.
  bool Met() const {
    return std::atomic_ref(const_cast<bool&>(met_now)).load(std::memory_order_relaxed);
  }

  void SetMet(bool met) { std::atomic_ref(met_now).store(met, std::memory_order_relaxed); }

  TransferState state_now = TransferState::kIdle;
  bool met_now = false;
  size_t moved = 0;
  bool granted =
      false;  // of a send: the other side has room for all of it; of a receive: that has been said
  bool announced =
      false;  // of a send: the other side has been told of it, and it waits to be granted
  uint32_t lent =
      0;  // of a send: its parts on connections beside the main one that are not known to have come
  uint64_t borrowed_until =
      0;  // of a send: where on the link's stream the last byte is that is read again if it does not come
  Transfer* next = nullptr;
};

}  // namespace weft
