// Whoever looks after the groups of this process is kept at it for a while, as a thread is that gets no CPU: it has looked at all that
// there were, and no other thread does instead.
//
//   HeldLook held(150'000'000);                      // returns when it is held
//   group.Close();
//
// To be used once in a process that has a group; nobody looks at it any more when that is closed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include <unistd.h>

#include "comm/agent/watched.h"
#include "comm/group/progress.h"

namespace weft::test {

class HeldLook {
 public:
  explicit HeldLook(int64_t ns) : holder_(std::make_shared<Holder>(ns)) {
    WatchGroup(holder_);
    // The progress thread may come first.
    looks_ = std::thread([holder = holder_] {
      while (!holder->held.load()) {
        LookNow();
        usleep(100);
      }
    });
    while (!holder_->held.load())
      usleep(100);
  }

  HeldLook(const HeldLook&) = delete;
  HeldLook& operator=(const HeldLook&) = delete;

  ~HeldLook() { looks_.join(); }

 private:
  struct Holder : Watched {
    explicit Holder(int64_t ns) : held_ns(ns) {}

    int64_t Look(int64_t /*now_ns*/) override {
      if (!held.exchange(true)) usleep(static_cast<useconds_t>(held_ns / 1000));
      return INT64_MAX;
    }

    const int64_t held_ns;
    std::atomic<bool> held{false};
  };

  const std::shared_ptr<Holder> holder_;
  std::thread looks_;
};

}  // namespace weft::test
