// What one rank has done with a group: the numbers of weft_group_stats.
//
//   const uint64_t sequence = counters.Start();  // under the issue lock
//   counters.Ended(well, in_bytes, out_bytes);   // by whoever may touch the group's NodeState
//   const GroupStats stats = counters.Read();
//
// Each counter has one writer at a time, so that counting is a plain load and store: no locked
// instruction on the blocking path. Readers acquire nothing and may see bytes and failures of another
// moment than the number of operations.
// Thread-safety: as said at each function; Read and Waited from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/group/process_group.h"

namespace weft {

class GroupCounters {
 public:
  // Under the issue lock: one more operation begins. Its sequence number, from 1.
  uint64_t Start() {
    const uint64_t sequence = started_.load(std::memory_order_relaxed) + 1;
    started_.store(sequence, std::memory_order_release);
    return sequence;
  }

  // The sequence number of the last operation that began, 0 before the first.
  uint64_t started() const { return started_.load(std::memory_order_acquire); }

  // Collectives, well or not.
  uint64_t ended() const { return collectives_.load(std::memory_order_acquire); }

  // By whoever may touch the group's NodeState, once per operation that was started; the bytes of this
  // rank's buffers if it ended well.
  void Ended(bool well, size_t in_bytes, size_t out_bytes) {
    Add(collectives_, 1);
    if (well) {
      Add(in_bytes_, in_bytes);
      Add(out_bytes_, out_bytes);
    } else {
      Add(failures_, 1);
    }
  }

  // Under the rank's message lock, once per message.
  void MessageEnded(bool is_send, size_t bytes, bool well) {
    Add(messages_, 1);
    if (!well) {
      Add(message_failures_, 1);
    } else {
      Add(is_send ? sent_bytes_ : received_bytes_, bytes);
    }
  }

  // What the messages of a rank wait in: another one when any of them has moved in between.
  struct MessageWait {
    uint64_t number = 0;
    bool begun = false;  // the oldest has met its other half: its data moves without anybody's call
  };

  // Under the rank's message lock: nothing has moved for some milliseconds, for the first time
  // since something did or again.
  void MessagesWait(bool again, bool begun) {
    const uint64_t number = message_wait().number + (again ? 0 : 1);
    message_wait_.store(number << 1 | (begun ? 1 : 0), std::memory_order_release);
  }

  // As of the last time.
  MessageWait message_wait() const {
    const uint64_t word = message_wait_.load(std::memory_order_acquire);
    return {.number = word >> 1, .begun = (word & 1) != 0};
  }

  // As Ended: the rank holds this much more shared memory for the group.
  void Holds(uint64_t shared_bytes) { Add(shared_bytes_, shared_bytes); }

  // As Holds, for staging, which a rank makes at most once.
  void HoldsStage(uint64_t shared_bytes) {
    holds_stage_ = true;
    Holds(shared_bytes);
  }

  bool holds_stage() const { return holds_stage_; }

  // A blocking call has waited for peers this long after it stopped spinning.
  void Waited(int64_t ns) {
    if (ns > 0) wait_ns_.fetch_add(ns, std::memory_order_relaxed);
  }

  // Without private_bytes, which the group knows.
  GroupStats Read() const;

 private:
  using Counter = std::atomic<uint64_t>;

  static void Add(Counter& counter, uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_release);
  }

  Counter started_{0};
  Counter collectives_{0};
  Counter failures_{0};
  Counter in_bytes_{0};
  Counter out_bytes_{0};
  Counter shared_bytes_{0};
  Counter messages_{0};
  Counter message_failures_{0};
  Counter sent_bytes_{0};
  Counter received_bytes_{0};
  Counter message_wait_{0};
  std::atomic<int64_t> wait_ns_{0};
  bool holds_stage_ = false;  // of whoever may touch the group's NodeState
};

}  // namespace weft
