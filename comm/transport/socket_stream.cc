#include "comm/transport/socket_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
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

size_t BytesOf(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces)
    bytes += piece.iov_len;
  return bytes;
}

IoResult Unmoved(int error_number) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR) return {};
  return {.state = IoState::kFailed, .error_number = error_number};
}

}  // namespace

IoResult SocketStream::Write(std::span<const iovec> pieces) {
  ssize_t sent = 0;
  if (BytesOf(pieces) <= kSmallBytes) {
    std::array<std::byte, kSmallBytes> together;
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      std::memcpy(together.data() + bytes, piece.iov_base, piece.iov_len);
      bytes += piece.iov_len;
    }
    sent = send(fd_.get(), together.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } else {
    const msghdr message = MessageOf(pieces);
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // Who has closed the connection may have sent something before, which lies here: the end is what a read says.
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
  if (sent < 0) return Unmoved(errno);
  return {.state = IoState::kDone, .bytes = static_cast<size_t>(sent)};
}

// Straight into the pieces.
ssize_t SocketStream::Receive(std::span<const iovec> pieces) {
  ssize_t got = 0;
  if (pieces.size() == 1) {
    got = recv(fd_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  } else {
    msghdr message = MessageOf(pieces);
    got = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  }
  drained_ = got > 0 && static_cast<size_t>(got) < BytesOf(pieces);
  return got;
}

IoResult SocketStream::Read(std::span<const iovec> pieces) {
  const bool ahead = BytesOf(pieces) <= kSmallBytes;
  if (begin_ == end_) {
    if (std::exchange(drained_, false)) return {};
    const iovec room{ahead_.data(), ahead_.size()};
    const ssize_t got = Receive(ahead ? std::span(&room, 1) : pieces);
    if (got < 0) return Unmoved(errno);
    if (got == 0) return {.state = IoState::kClosed};
    if (!ahead) return {.state = IoState::kDone, .bytes = static_cast<size_t>(got)};
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  size_t bytes = 0;
  for (const iovec& piece : pieces) {
    const size_t taken = std::min(piece.iov_len, end_ - begin_);
    if (taken > 0) std::memcpy(piece.iov_base, ahead_.data() + begin_, taken);
    begin_ += taken;
    bytes += taken;
  }
  return {.state = IoState::kDone, .bytes = bytes};
}

// What waits behind that is a part's worth: a slow connection must not hold up what another one could have taken meanwhile, and one must not run
// dry while a rank computes.
bool SocketStream::HasRoom() {
  constexpr size_t kWaitingBytes = 64 << 10;
  constexpr size_t kOnItsWayMax = 16 << 20;
  if (parts_until_look_-- == 0) {
    parts_until_look_ = kPartsPerLook - 1;
    tcp_info info = {};
    socklen_t bytes = sizeof(info);
    // Older kernels give less.
    if (getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
        bytes >= offsetof(tcp_info, tcpi_delivery_rate) + sizeof(info.tcpi_delivery_rate)) {
      // Bytes per second and microseconds; while it is not busy this says too little, and so is doubled.
      const uint64_t measured = info.tcpi_delivery_rate * info.tcpi_min_rtt / 1'000'000;
      on_its_way_ = static_cast<size_t>(std::min<uint64_t>(2 * measured, kOnItsWayMax));
    }
  }
  int outstanding = 0;
  return ioctl(fd_.get(), SIOCOUTQ, &outstanding) != 0 ||
         static_cast<size_t>(outstanding) < kWaitingBytes + on_its_way_;
}

bool SocketStream::Flushed() const {
  int unsent = 0;
  return ioctl(fd_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

}  // namespace weft
