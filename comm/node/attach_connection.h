// One end of a connection between processes that make a group. Whoever is done with it hangs up, and
// the other end is told at once.
//
// Closing a descriptor alone would not tell it: a child that another thread has forked meanwhile may
// hold a copy.
//
// Thread-safety: a value.
#pragma once

#include <utility>

#include <sys/socket.h>

#include "base/fd.h"

namespace weft {

class AttachConnection {
 public:
  AttachConnection() = default;

  explicit AttachConnection(UniqueFd socket) : socket_(std::move(socket)) {}

  AttachConnection(AttachConnection&&) noexcept = default;

  AttachConnection& operator=(AttachConnection&& other) noexcept {
    if (this == &other) return *this;
    HangUp();
    socket_ = std::move(other.socket_);
    return *this;
  }

  ~AttachConnection() { HangUp(); }

  int get() const { return socket_.get(); }

  bool valid() const { return socket_.valid(); }

  // What was sent before can still be read at the other end.
  void HangUp() {
    if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
    socket_.Reset();
  }

 private:
  UniqueFd socket_;
};

}  // namespace weft
