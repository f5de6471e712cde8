// Nothing but Poll waits. So a host must be a numeric address (to resolve a name waits), and connect() is not repeated after
// a signal: it goes on in the background, as after EINPROGRESS. The wildcard address is refused here, in the one place that
// binds, because a store must not be open to networks that nobody named.
#include "base/net.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/child_descriptors.h"
#include "base/fd.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr int kBacklog = 1024;

struct Address {
  union {
    sockaddr_storage storage = {};
    sockaddr any;
    sockaddr_un local;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };

  socklen_t size = sizeof(storage);

  int family() const { return any.sa_family; }
};

// "fd00::1", "fe80::1%eth0"; the interface may be its number.
bool ReadIpv6(const std::string& host, sockaddr_in6* address) {
  const size_t scope = host.find('%');
  if (inet_pton(AF_INET6, host.substr(0, scope).c_str(), &address->sin6_addr) != 1) return false;
  address->sin6_family = AF_INET6;
  if (scope == std::string::npos) return true;
  const std::string name = host.substr(scope + 1);
  address->sin6_scope_id = if_nametoindex(name.c_str());
  return address->sin6_scope_id != 0 || absl::SimpleAtoi(name, &address->sin6_scope_id);
}

absl::Status CheckScope(const std::string& host, const sockaddr_in6& address) {
  if (!IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) || address.sin6_scope_id != 0)
    return absl::OkStatus();
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("the address ", host, " is link-local: it means something together with ",
             "the interface of this machine that is on that link, as ", host, "%eth0"));
}

absl::StatusOr<Address> ToAddress(const Endpoint& endpoint) {
  const std::string& host = endpoint.host;
  Address address;
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    if (host.empty() || host.size() + 1 > sizeof(address.local.sun_path)) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("the unix socket name ", host, " is empty or too long"));
    }
    address.local.sun_family = AF_UNIX;
    std::memcpy(address.local.sun_path + 1, host.data(), host.size());
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + host.size());
  } else if (inet_pton(AF_INET, host.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(endpoint.port);
    address.size = sizeof(sockaddr_in);
  } else if (ReadIpv6(host, &address.v6)) {
    address.v6.sin6_port = htons(endpoint.port);
    address.size = sizeof(sockaddr_in6);
    WEFT_RETURN_IF_ERROR(CheckScope(host, address.v6));
  } else {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("\"", host, "\" is not a numeric address"));
  }
  return address;
}

bool IsWildcard(const Address& address) {
  if (address.family() == AF_INET) return address.v4.sin_addr.s_addr == INADDR_ANY;
  return address.family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address.v6.sin6_addr);
}

uint16_t PortOf(const Address& address) {
  return ntohs(address.family() == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

std::string AddressText(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET) {
    inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof(text));
    return StrCat(text, ":", PortOf(address));
  }
  if (address.family() == AF_INET6) {
    inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof(text));
    char scope[IF_NAMESIZE + 1] = "%";
    const bool scoped = if_indextoname(address.v6.sin6_scope_id, scope + 1) != nullptr;
    return StrCat("[", text, scoped ? scope : "", "]:", PortOf(address));
  }
  return "a unix socket";
}

absl::StatusOr<UniqueFd> OpenSocket(const Address& address, const std::string& where) {
  UniqueFd fd = MakeSocket(address.family(), SOCK_STREAM);
  if (fd.valid()) return fd;
  return RefusedCallError(errno, "socket", StrCat("could not make a socket for ", where));
}

absl::Status BindError(int error_number, const std::string& where) {
  const std::string what = StrCat("could not listen on ", where);
  if (error_number == EADDRNOTAVAIL) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(SystemError(error_number, what).message(),
                            "; it is no address of this machine, ip addr lists those that are"));
  }
  return RefusedCallError(error_number, "bind", what);
}

// Small frames go out at once. An idle connection is asked about each second, so that one whose peer machine has vanished ends within
// seconds, or when that machine counts as unreachable; its kernel answers, whatever its processes do.
void TuneTcp(int fd, bool tcp) {
  if (!tcp) return;
  const int one = 1;
  constexpr int64_t kProbesMax = 127;  // Linux's
  const int64_t patience_s = std::max<int64_t>(3, UnreachableNs() / 1'000'000'000);
  const int every_s = static_cast<int>((patience_s + kProbesMax - 1) / kProbesMax);
  const int probes = static_cast<int>(patience_s / every_s);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

bool WouldBlock(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK;
}

IoResult ToResult(ssize_t count) {
  if (count > 0) return {IoState::kDone, static_cast<size_t>(count), 0};
  if (count == 0) return {IoState::kClosed, 0, 0};
  if (WouldBlock(errno)) return {IoState::kWouldBlock, 0, 0};
  return {IoState::kFailed, 0, errno};
}

constexpr std::string_view kNobodyListens = "weft/nobody listens";

absl::Status ConnectError(int error_number, const std::string& where) {
  char buffer[128];
  absl::Status status =
      MakeError(WEFT_UNREACHABLE, StrCat("could not connect to ", where, ": ",
                                         strerror_r(error_number, buffer, sizeof(buffer))));
  if (error_number == ECONNREFUSED) status.SetPayload(ToAbsl(kNobodyListens), absl::Cord());
  return status;
}

}  // namespace

bool IsLoopback(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6) != 0;
}

// ConnectError() puts it last.
std::string ConnectAnswer(const absl::Status& status) {
  const std::string_view message = FromAbsl(status.message());
  const size_t before = message.rfind(": ");
  return std::string(before == std::string_view::npos ? message : message.substr(before + 2));
}

// Two sockets may have one address while neither listens, if both were to be allowed to.
absl::StatusOr<UniqueFd> ReserveEndpoint(Endpoint* endpoint) {
  WEFT_ASSIGN_OR_RETURN(Address address, ToAddress(*endpoint));
  const std::string where = endpoint->ToString();
  if (IsWildcard(address)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("will not listen on ", where,
                            ": every interface of the machine; name the address to use"));
  }
  WEFT_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(address, where));
  const bool tcp = endpoint->kind == Endpoint::Kind::kTcp;
  const int one = 1;
  // A port of a server that ended a moment ago; a live one still refuses the bind.
  if (tcp) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd.get(), &address.any, address.size) < 0) {
    return BindError(errno, where);
  }
  if (!tcp) return fd;
  Address bound;
  if (getsockname(fd.get(), &bound.any, &bound.size) < 0) {
    return SystemError(errno, StrCat("could not read the port of ", where));
  }
  endpoint->port = PortOf(bound);
  return fd;
}

absl::StatusOr<int> SystemNet::Listen(Endpoint* endpoint) {
  WEFT_ASSIGN_OR_RETURN(UniqueFd fd, ReserveEndpoint(endpoint));
  if (listen(fd.get(), kBacklog) < 0) {
    return SystemError(errno, StrCat("could not listen on ", endpoint->ToString()));
  }
  return fd.Release();
}

void SystemNet::FinishWriting(int stream) {
  (void)shutdown(stream, SHUT_WR);
}

void SystemNet::StopListening(int listener) {
  (void)shutdown(listener, SHUT_RDWR);
}

bool NobodyListens(const absl::Status& status) {
  return status.GetPayload(ToAbsl(kNobodyListens)).has_value();
}

absl::StatusOr<int> SystemNet::Accept(int listener) {
  Address address;
  while (true) {
    address.size = sizeof(address.storage);
    UniqueFd fd = AcceptSocket(listener, &address.any, &address.size);
    if (fd.valid()) {
      TuneTcp(fd.get(), address.family() != AF_UNIX);
      return fd.Release();
    }
    // A connection that its peer gave up while it was queued is nobody's error.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (WouldBlock(errno)) return -1;
    return SystemError(errno, "could not accept a connection");
  }
}

absl::StatusOr<int> SystemNet::Connect(const Endpoint& endpoint) {
  WEFT_ASSIGN_OR_RETURN(Address address, ToAddress(endpoint));
  WEFT_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(address, endpoint.ToString()));
  TuneTcp(fd.get(), endpoint.kind == Endpoint::Kind::kTcp);
  // An interrupted connect goes on in the background, as EINPROGRESS does.
  if (connect(fd.get(), &address.any, address.size) < 0 && errno != EINPROGRESS && errno != EINTR) {
    return ConnectError(errno, endpoint.ToString());
  }
  return fd.Release();
}

absl::Status SystemNet::FinishConnect(int stream) {
  int error_number = 0;
  socklen_t size = sizeof(error_number);
  if (getsockopt(stream, SOL_SOCKET, SO_ERROR, &error_number, &size) < 0) error_number = errno;
  if (error_number != 0) return ConnectError(error_number, "its peer");
  return absl::OkStatus();
}

IoResult SystemNet::Read(int stream, void* data, size_t bytes) {
  ssize_t count;
  do {
    count = recv(stream, data, bytes, 0);
  } while (count < 0 && errno == EINTR);
  return ToResult(count);
}

IoResult SystemNet::Write(int stream, const void* data, size_t bytes) {
  ssize_t count;
  do {
    count = send(stream, data, bytes, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return ToResult(count);
}

PeerIdentity SystemNet::Peer(int stream) {
  PeerIdentity peer;
  Address address;
  if (getpeername(stream, &address.any, &address.size) < 0) return peer;
  peer.address = AddressText(address);
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (address.family() == AF_UNIX &&
      getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.pid = credentials.pid;
    peer.uid = credentials.uid;
    peer.address = StrCat("pid ", credentials.pid, " of user ", credentials.uid);
  }
  return peer;
}

void SystemNet::Close(int handle) {
  ForgetKept(handle);
  UniqueFd closer(handle);
}

void SystemNet::EndUnanswered(int stream, int64_t after_ns) {
  // A unix socket refuses it, and needs it not.
  const int after_ms = static_cast<int>(std::clamp<int64_t>(after_ns / 1'000'000, 1, INT_MAX));
  setsockopt(stream, IPPROTO_TCP, TCP_USER_TIMEOUT, &after_ms, sizeof(after_ms));
}

int64_t SystemNet::UnansweredNs(int stream) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(stream, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return kNotKnownNs;
  return int64_t{std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)} * 1'000'000;
}

void SystemNet::KeepFromChildren(int handle) {
  weft::KeepFromChildren(handle);
}

absl::Status SystemNet::Poll(std::span<PollItem> items, int64_t deadline_ns) {
  std::vector<pollfd> fds(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    fds[i].fd = items[i].handle;
    fds[i].events =
        static_cast<short>((items[i].want_read ? POLLIN : 0) | (items[i].want_write ? POLLOUT : 0));
  }
  int count;
  do {
    const int64_t now_ns = MonotonicNs();
    const int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    timespec left = {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    count = ppoll(fds.data(), fds.size(), &left, nullptr);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return SystemError(errno, "could not wait for sockets");
  for (size_t i = 0; i < items.size(); ++i) {
    constexpr short kBroken = POLLERR | POLLHUP | POLLNVAL;
    items[i].readable = (fds[i].revents & (POLLIN | kBroken)) != 0;
    items[i].writable = (fds[i].revents & (POLLOUT | kBroken)) != 0;
  }
  return absl::OkStatus();
}

}  // namespace weft
