// Owns a file descriptor.
//
//   UniqueFd fd(open(...));
//   if (!fd.valid()) return SystemError(errno, "...");
//
// Thread-safety: a value. close() runs once and its error is ignored: nothing here writes files.
#pragma once

#include <utility>

namespace weft {

class UniqueFd {
 public:
  UniqueFd() = default;

  explicit UniqueFd(int fd) : fd_(fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }

  bool valid() const { return fd_ >= 0; }

  // Gives the descriptor away; the caller closes it.
  int Release() { return std::exchange(fd_, -1); }

  void Reset();

 private:
  int fd_ = -1;
};

}  // namespace weft
