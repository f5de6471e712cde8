#include "comm/transport/socket_stream.h"

#include <cerrno>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace weft {
namespace {

msghdr MessageOf(std::span<const iovec> pieces) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

IoResult Unmoved(int error_number) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR) return {};
  return {.state = IoState::kFailed, .error_number = error_number};
}

}  // namespace

IoResult SocketStream::Write(std::span<const iovec> pieces) {
  const msghdr message = MessageOf(pieces);
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  // Who has closed the connection may have sent something before, which lies here: the end is what a read says.
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
  if (sent < 0) return Unmoved(errno);
  return {.state = IoState::kDone, .bytes = static_cast<size_t>(sent)};
}

IoResult SocketStream::Read(std::span<const iovec> pieces) {
  msghdr message = MessageOf(pieces);
  const ssize_t got = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  if (got < 0) return Unmoved(errno);
  if (got == 0) return {.state = IoState::kClosed};
  return {.state = IoState::kDone, .bytes = static_cast<size_t>(got)};
}

bool SocketStream::Flushed() const {
  int unsent = 0;
  return ioctl(fd_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

}  // namespace weft
