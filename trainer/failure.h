// How the trainer ends early. It is a program, not a library with an ABI: a problem is thrown as one
// finished sentence and caught in main.
#ifndef WEFT_TRAINER_FAILURE_H_
#define WEFT_TRAINER_FAILURE_H_

#include <stdexcept>
#include <string>

namespace weft::trainer {

// The user asked for something impossible: exit code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something failed on the way: exit code 1.
class RunFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_FAILURE_H_
