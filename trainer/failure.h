// How the trainer ends early. It is a program, not a library with an ABI: a problem is thrown as one
// finished sentence and caught in main.
#ifndef WEFT_TRAINER_FAILURE_H_
#define WEFT_TRAINER_FAILURE_H_

#include <stdexcept>
#include <string>

#include "weft/types.h"

namespace weft::trainer {

// The user asked for something impossible: exit code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A rank that has come to join a run trains something else: it alone ends, with exit code 2, and the others go on.
class NotOfThisRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something failed on the way: exit code 1.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call of weft failed.
class WeftFailure : public RunFailure {
 public:
  WeftFailure(const std::string& sentence, weft_result_t result, int world_rank, int pid)
      : RunFailure(sentence), result_(result), world_rank_(world_rank), pid_(pid) {}

  weft_result_t result() const { return result_; }

  // Of the rank that is to blame; -1 where that is not known.
  int world_rank() const { return world_rank_; }

  int pid() const { return pid_; }

 private:
  weft_result_t result_;
  int world_rank_;
  int pid_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_FAILURE_H_
