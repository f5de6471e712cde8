// Lets completing threads call somebody who may be gone.
//
//   auto doorbell = std::make_shared<Doorbell>([this] { Answer(); });
//   work->OnComplete([doorbell](const absl::Status&) { doorbell->Ring(); });
//   ...
//   doorbell->Silence();        // in the destructor: nobody is inside Answer() any more, nor will be
//
// Thread-safety: Ring from any thread, also from within an answer; Silence once, not from within one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/wait.h"

namespace weft {

class Doorbell {
 public:
  explicit Doorbell(std::function<void()> answer) : answer_(std::move(answer)) {}

  void Ring() {
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (!silent_.load(std::memory_order_seq_cst)) answer_();
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    NotifyAll(left_);
  }

  // Answers do not wait for anything, so this is short.
  void Silence() {
    silent_.store(true, std::memory_order_seq_cst);
    Deadline deadline{INT64_MAX};
    (void)WaitUntil(
        left_, {}, deadline, [&] { return inside_.load(std::memory_order_seq_cst) == 0; },
        [] { return false; });
  }

 private:
  const std::function<void()> answer_;
  std::atomic<bool> silent_{false};
  std::atomic<int> inside_{0};
  EventCount left_;
};

}  // namespace weft
