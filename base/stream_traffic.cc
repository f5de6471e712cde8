// What the system counts of a TCP connection, of which the C library's headers know less than the kernel's. Older kernels give less: what they do
// not give is zero.
#include <algorithm>
#include <cstdint>
#include <string>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/net.h"

namespace weft {
namespace {

std::string HostOf(int stream, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "";
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool known = name(stream, any, &size) == 0 && address.ss_family != AF_UNIX &&
                     getnameinfo(any, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? host : "";
}

}  // namespace

StreamAddresses SystemNet::Addresses(int stream) {
  return {HostOf(stream, getsockname), HostOf(stream, getpeername)};
}

StreamTraffic SystemNet::Traffic(int stream) {
  StreamTraffic traffic;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(stream, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return traffic;
  int queued = 0;
  if (ioctl(stream, SIOCOUTQ, &queued) != 0) queued = 0;
  traffic.acknowledged_bytes = info.tcpi_bytes_acked;
  traffic.received_bytes = info.tcpi_bytes_received;
  traffic.unacknowledged_bytes =
      static_cast<uint64_t>(queued) - std::min<uint64_t>(info.tcpi_notsent_bytes, queued);
  traffic.waiting_bytes = static_cast<uint64_t>(queued) - traffic.unacknowledged_bytes;
  traffic.sent_again = info.tcpi_unacked > 0 ? info.tcpi_retransmits : 0;
  // Whoever does not read answers that it has no room.
  traffic.answered = info.tcpi_last_ack_recv <= info.tcpi_last_data_sent;
  traffic.packet_bytes = info.tcpi_pmtu;
  return traffic;
}

}  // namespace weft
