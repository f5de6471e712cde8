// A few threads that share the work of one: an interval cut in pieces, each of which is done once, by whoever is free.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadTeam> team, ThreadTeam::Start(4));      // starts three threads
//   std::vector<ExactSum> sums(4);                                            // by member
//   team->ForEach(pieces.size(), [&](size_t piece, int member) { Add(pieces[piece], sums[member]); });
//
// The caller is member 0 and works too. Who does which piece changes from call to call, so results must not depend on
// it: pieces touch nothing in common, or exact sums by member that are merged afterwards.
//
// A call waits for members that are in the middle of a piece only. Those that still sleep when the last piece is taken
// are not waited for: on a machine with more threads than CPUs a small call costs what it costs alone.
//
// Between calls the threads wait as base/wait.h waits: they spin for microseconds, then sleep. Signals are for the
// threads of the program: these have all of them blocked. They may run on the CPUs on which the thread that called
// Start may run. Pieces are done in the floating-point environment that the numbers contract assumes, the caller's too.
//
// A forked child has none of the threads: there the caller does everything, and the destructor leaves them be.
//
// Thread-safety: ForEach from one thread at a time, and not from within a piece. The destructor ends and joins the
// threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/wait.h"

namespace weft {

class ThreadTeam {
 public:
  // Does piece number `piece`, as member `member` of [0, size()).
  using Body = absl::FunctionRef<void(size_t piece, int member)>;

  // `size` counts the caller: 1 starts no thread. SYSTEM_ERROR if the system gives no thread.
  static absl::StatusOr<std::unique_ptr<ThreadTeam>> Start(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls `body` for pieces [0, count), each once; returns when all calls have returned. What they wrote is then visible.
  void ForEach(size_t count, Body body);

 private:
  explicit ThreadTeam(int size);

  absl::Status StartThreads();
  void Loop(int member);
  // Joins the round that is open, unless none is. Invariant: nobody reads round_ without being inside.
  bool Enter();
  void Leave();
  void DoPieces(int member);

  // What a call wants done; written by the caller while nobody is inside.
  struct Round {
    const Body* body = nullptr;
    size_t count = 0;
  };

  // The door: how many threads are inside in the low bits, whether more may enter, and in the high half the number of the
  // round, so that a thread tells a new round from the one it has done.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kOpen - 1;
  static constexpr int kRoundShift = 32;

  const int size_;
  const uint32_t fork_generation_;
  Round round_;
  alignas(64) std::atomic<uint64_t> door_{0};
  std::atomic<bool> ended_{false};
  alignas(64) std::atomic<size_t> next_{0};  // the first piece that nobody has taken
  EventCount opened_;                        // notified when a round begins, and at the end
  EventCount left_;                          // notified by the last one to leave a closed door
  std::vector<std::thread> threads_;
};

}  // namespace weft
