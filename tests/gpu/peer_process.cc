#include "tests/gpu/peer_process.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"

namespace weft::test {
namespace {

constexpr size_t kMessageBytesMax = 4096;

absl::Status Failed(const char* what) {
  return MakeError(WEFT_SYSTEM_ERROR, StrCat(what, ": ", std::strerror(errno)));
}

// A message with a descriptor, if there is one.
absl::Status SendMessage(int socket, const std::string& text, int fd) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    return Failed("a message to the other process could not be sent");
  return absl::OkStatus();
}

// "" when the other process is gone. `timeout_ms`: -1 waits for ever.
absl::StatusOr<std::string> ReceiveMessage(int socket, int timeout_ms, int& fd) {
  fd = -1;
  pollfd ready = {socket, POLLIN, 0};
  const int count = poll(&ready, 1, timeout_ms);
  if (count == 0)
    return MakeError(WEFT_TIMEOUT, StrCat("the other process said nothing in ", timeout_ms, " ms"));
  std::vector<char> bytes(kMessageBytesMax);
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = count < 0 ? -1 : recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return Failed("a message of the other process could not be received");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return std::string(bytes.data(), static_cast<size_t>(size));
}

void ServeAll(int socket, const PeerProcess::Serve& serve) {
  for (;;) {
    int fd = -1;
    const absl::StatusOr<std::string> request = ReceiveMessage(socket, -1, fd);
    if (!request.ok() || request->empty()) return;
    const absl::StatusOr<std::string> answer = serve(*request, fd);
    const std::string said =
        answer.ok() ? StrCat(" ", *answer) : StrCat("!", answer.status().message());
    if (!SendMessage(socket, said, -1).ok()) return;
  }
}

}  // namespace

PeerProcess::PeerProcess(const Serve& serve) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    if (getppid() == parent) ServeAll(ends[1], serve);
    _exit(0);
  }
  close(ends[1]);
  socket_ = ends[0];
}

PeerProcess::~PeerProcess() {
  if (socket_ >= 0) close(socket_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);  // it may wait in the driver
  waitpid(pid_, nullptr, 0);
}

absl::StatusOr<std::string> PeerProcess::Ask(const std::string& request, int fd) {
  WEFT_RETURN_IF_ERROR(Send(request, fd));
  return Receive();
}

absl::Status PeerProcess::Send(const std::string& request, int fd) {
  return SendMessage(socket_, request, fd);
}

absl::StatusOr<std::string> PeerProcess::Receive() {
  int fd = -1;
  WEFT_ASSIGN_OR_RETURN(const std::string answer, ReceiveMessage(socket_, kPeerSeconds * 1000, fd));
  if (fd >= 0) close(fd);
  if (answer.empty()) return MakeError(WEFT_SYSTEM_ERROR, "the other process has ended");
  if (answer[0] == '!')
    return MakeError(WEFT_SYSTEM_ERROR, StrCat("the other process: ", answer.substr(1)));
  return answer.substr(1);
}

}  // namespace weft::test
