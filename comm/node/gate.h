// Counts who is inside a group, and turns away who comes once it is closed.
//
//   if (!gate.Enter()) return closed;    // a thread that steps, waits, or splits the group
//   ...
//   gate.Leave();
//
//   gate.Close();                        // then wait, on the same EventCount, until gate.empty()
//
// A group's segment may be freed when it has been closed, so nobody may look at it then but who is inside. A visitor counts
// itself before it looks whether the gate is closed, and Close() closes before it looks at the count (seq_cst): either the
// visitor turns back, or Close() sees it. Who steps is a visitor by the step lock, in the same order: it acquires, then looks
// at closed().
// Thread-safety: any thread. In a forked child the gate is closed: what is inside is its parent's.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/wait.h"
#include "comm/group/fork.h"

namespace weft {

class Gate {
 public:
  // `left` outlives the gate, and is notified whenever a visitor leaves.
  explicit Gate(EventCount& left) : left_(left) {}

  // False in a forked child of the process that made the gate.
  bool here() const { return origin_.here(); }

  // False if it is closed; else Leave() follows.
  bool Enter() {
    if (!here()) return false;
    visitors_.fetch_add(1, std::memory_order_seq_cst);
    if (!closed()) return true;
    Leave();
    return false;
  }

  void Leave() {
    visitors_.fetch_sub(1, std::memory_order_seq_cst);
    NotifyAll(left_);
  }

  void Close() { closed_.store(true, std::memory_order_seq_cst); }

  bool closed() const { return closed_.load(std::memory_order_seq_cst); }

  // Nobody is inside.
  bool empty() const { return visitors_.load(std::memory_order_seq_cst) == 0; }

 private:
  EventCount& left_;
  const Origin origin_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> visitors_{0};
};

// A visit for a scope.
class Visit {
 public:
  explicit Visit(Gate& gate) : gate_(gate), inside_(gate.Enter()) {}

  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  ~Visit() {
    if (inside_) gate_.Leave();
  }

  bool inside() const { return inside_; }

 private:
  Gate& gate_;
  const bool inside_;
};

}  // namespace weft
