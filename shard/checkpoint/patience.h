// How whoever waits for files of others waits: by the clock, and only as long as these may still come.
//
//   SystemPatience patience([&] { return group.error(); });
//   while (patience.NowNs() < deadline_ns && patience.Over().ok()) { ... patience.PauseUntil(...); }
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "base/poll_set.h"

namespace weft {

class Patience {
 public:
  virtual ~Patience() = default;
  virtual int64_t NowNs() = 0;
  // Sleeps until then, or less long.
  virtual void PauseUntil(int64_t time_ns) = 0;
  // Why it is not worth waiting any more, as the others will not come; Ok while it is.
  virtual absl::Status Over() = 0;
};

class SystemPatience : public Patience {
 public:
  explicit SystemPatience(std::function<absl::Status()> over) : over_(std::move(over)) {}

  int64_t NowNs() override;
  void PauseUntil(int64_t time_ns) override;

  absl::Status Over() override { return over_(); }

 private:
  const std::function<absl::Status()> over_;
  PollSet set_;
};

}  // namespace weft
