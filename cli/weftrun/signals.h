// The signals that weftrun forwards, as a descriptor that the loop polls.
//
//   WEFT_ASSIGN_OR_RETURN(Signals signals, Signals::Block());
//   while (int signal = signals.Next()) ...   // SIGCHLD, SIGINT, SIGTERM, ...
//
// A signal that was ignored when weftrun started (nohup, a script's background job) stays ignored.
// Thread-safety: one thread, made before any other process or thread is started.
#pragma once

#include <csignal>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

class Signals {
 public:
  static absl::StatusOr<Signals> Block();

  int fd() const { return fd_.get(); }

  // The next signal that came, 0 if none is left.
  int Next();

  // What was blocked before; children get it.
  const sigset_t& original_mask() const { return original_; }

 private:
  Signals() = default;

  UniqueFd fd_;
  sigset_t original_ = {};
};

}  // namespace weft
