#include "shard/optimizer/thread_team.h"

#include <utility>

#include "base/check.h"
#include "base/hidden_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/fork.h"
#include "comm/kernels/default_rounding.h"

namespace weft {

absl::StatusOr<std::unique_ptr<ThreadTeam>> ThreadTeam::Start(int size) {
  WEFT_CHECK(size >= 1);
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(size));
  WEFT_RETURN_IF_ERROR(team->StartThreads());
  return team;
}

ThreadTeam::ThreadTeam(int size) : size_(size), fork_generation_(ForkGeneration()) {}

absl::Status ThreadTeam::StartThreads() {
  threads_.reserve(static_cast<size_t>(size_ - 1));
  for (int member = 1; member < size_; ++member) {
    absl::StatusOr<std::thread> started =
        StartHiddenThread("weft-team", [this, member] { Loop(member); });
    if (!started.ok()) {
      return Annotate(started.status(), StrCat("thread ", member + 1, " of ", size_, ": "));
    }
    threads_.push_back(*std::move(started));
  }
  return absl::OkStatus();
}

ThreadTeam::~ThreadTeam() {
  const bool forked = !IsForkGeneration(fork_generation_);
  ended_.store(true, std::memory_order_seq_cst);
  if (!forked) NotifyAll(opened_);
  for (std::thread& thread : threads_) {
    if (forked) {
      thread.detach();  // it is the parent's
    } else {
      thread.join();
    }
  }
}

void ThreadTeam::ForEach(size_t count, Body body) {
  round_ = {&body, count};
  next_.store(0, std::memory_order_relaxed);
  const bool shared = count > 1 && size_ > 1 && IsForkGeneration(fork_generation_);
  if (!shared) return DoPieces(0);
  const uint64_t round = (door_.load(std::memory_order_relaxed) >> kRoundShift) + 1;
  door_.store(round << kRoundShift | kOpen, std::memory_order_seq_cst);
  NotifyAll(opened_);
  DoPieces(0);
  door_.fetch_and(~kOpen, std::memory_order_seq_cst);
  // Who is inside does one piece, which waits for nothing.
  Deadline deadline{INT64_MAX};
  (void)WaitUntil(
      left_, {}, deadline, [&] { return (door_.load(std::memory_order_acquire) & kInside) == 0; },
      [] { return false; });
}

void ThreadTeam::DoPieces(int member) {
  const DefaultRounding rounding;
  const Round round = round_;
  for (size_t piece = next_.fetch_add(1, std::memory_order_relaxed); piece < round.count;
       piece = next_.fetch_add(1, std::memory_order_relaxed)) {
    (*round.body)(piece, member);
  }
}

bool ThreadTeam::Enter() {
  uint64_t seen = door_.load(std::memory_order_relaxed);
  while ((seen & kOpen) != 0) {
    if (door_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void ThreadTeam::Leave() {
  const uint64_t before = door_.fetch_sub(1, std::memory_order_seq_cst);
  if ((before & (kOpen | kInside)) == 1) NotifyAll(left_);
}

void ThreadTeam::Loop(int member) {
  uint64_t done = 0;  // the last round that this thread has seen
  while (true) {
    Deadline deadline{INT64_MAX};
    uint64_t round = done;
    (void)WaitUntil(
        opened_, {}, deadline,
        [&] {
          round = door_.load(std::memory_order_seq_cst) >> kRoundShift;
          return round != done || ended_.load(std::memory_order_seq_cst);
        },
        [] { return false; });
    if (ended_.load(std::memory_order_seq_cst)) return;
    done = round;
    if (!Enter()) continue;
    DoPieces(member);
    Leave();
  }
}

}  // namespace weft
