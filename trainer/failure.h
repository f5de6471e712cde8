// How the trainer ends early. It is a program, not a library with an ABI: a problem is thrown as one
// finished sentence and caught in main.
#ifndef WEFT_TRAINER_FAILURE_H_
#define WEFT_TRAINER_FAILURE_H_

#include <cstdio>
#include <stdexcept>
#include <string>

#include "weft/types.h"

namespace weft::trainer {

// Exit codes; docs/trainer.md has them. EX_IOERR of sysexits.h is for output that is not there: whoever reads the code must not take
// the run for one that has left what it was to leave.
constexpr int kExitFailure = 1, kExitBadInput = 2, kExitNotWritten = 74;

// The user asked for something impossible: kExitBadInput.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A rank that has come to join a run trains something else: it alone ends, with kExitBadInput, and the others go on.
class NotOfThisRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something failed on the way: kExitFailure.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something that the run was to leave could not be written: kExitNotWritten.
class NotWritten : public RunFailure {
 public:
  using RunFailure::RunFailure;
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

// One line on standard error. If that is closed or full nobody can be told, and nothing is thrown.
inline void Complain(const std::string& sentence) {
  std::fputs(("weft_train: " + sentence + "\n").c_str(), stderr);
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_FAILURE_H_
