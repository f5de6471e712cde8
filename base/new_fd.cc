// A number of a standard descriptor comes only where HoldStandardFds() could not take it: there is no /dev/null, or the program has
// closed it since. The descriptor is then moved, and shared memory, which has no content yet, stays empty by that.
#include "base/new_fd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/standard_fds.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438  // Linux 5.6; the same on all architectures
#endif

namespace weft {
namespace {

UniqueFd Above(int fd) {
  if (fd < 0 || fd > kStandardFdMax) return UniqueFd(fd);
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kStandardFdMax + 1);
  const int error_number = errno;
  close(fd);
  errno = error_number;
  return UniqueFd(moved);
}

template <typename Call>
UniqueFd New(Call call) {
  HoldStandardFds();
  return Above(call());
}

}  // namespace

UniqueFd OpenFile(const std::string& path, int flags, mode_t mode) {
  return New([&] { return open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode); });
}

UniqueFd CreateTemporaryFile(std::string* path) {
  return New([&] { return mkostemp(path->data(), O_CLOEXEC); });
}

std::unique_ptr<DIR, CloseFolder> OpenFolder(const std::string& path) {
  UniqueFd fd = OpenFile(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  DIR* const folder = fd.valid() ? fdopendir(fd.get()) : nullptr;
  if (folder != nullptr) fd.Release();
  return std::unique_ptr<DIR, CloseFolder>(folder);
}

UniqueFd CreateMemoryFile(const char* name) {
  return New([&] { return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); });
}

UniqueFd DuplicateFd(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kStandardFdMax + 1));
}

bool ReplaceFd(int fd, int other) {
  return dup3(other, fd, O_CLOEXEC) == fd;
}

PipeEnds MakePipe() {
  HoldStandardFds();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  // Both are moved, or none is left.
  PipeEnds pipe{.read = Above(ends[0]), .write = Above(ends[1])};
  if (!pipe.valid()) return {};
  return pipe;
}

UniqueFd MakeSocket(int family, int type) {
  return New([&] { return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

UniqueFd AcceptSocket(int listener, sockaddr* address, socklen_t* address_bytes) {
  return New(
      [&] { return accept4(listener, address, address_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

ssize_t ReceiveWithFds(int socket, msghdr* message, std::vector<UniqueFd>* fds) {
  HoldStandardFds();
  const ssize_t received = recvmsg(socket, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (received < 0) return received;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + at, sizeof(number));
      fds->push_back(Above(number));
    }
  }
  return received;
}

UniqueFd MakeEvent(unsigned count) {
  return New([&] { return eventfd(count, EFD_NONBLOCK | EFD_CLOEXEC); });
}

UniqueFd MakeMonotonicTimer() {
  return New([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); });
}

UniqueFd MakeSignalFd(const sigset_t& signals) {
  return New([&] { return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK); });
}

UniqueFd MakeEpoll() {
  return New([] { return epoll_create1(EPOLL_CLOEXEC); });
}

UniqueFd OpenProcess(pid_t pid) {
  return New([&] { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); });
}

UniqueFd CopyFdOf(int pidfd, int fd) {
  return New([&] { return static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0)); });
}

}  // namespace weft
