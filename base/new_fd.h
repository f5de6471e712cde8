// Makes descriptors: the one place that does. Each has a number above 2, and exec closes it.
//
//   const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
//   if (!fd.valid()) return SystemError(errno, StrCat("opening ", path));
//
// Why above 2: base/standard_fds.h. Before a descriptor is made, /dev/null takes the standard ones that are closed, so that no
// other thread can print into it, not even for a moment. Where there is no /dev/null, the new one is moved above 2 at once.
// Libraries that make descriptors of their own (the resolver, hwloc, UCX, io_uring) are called behind HoldStandardFds().
//
// Each function is the system call of its name, with close-on-exec: on failure the result is not valid, and errno says why.
//
// Thread-safety: any thread, and after a fork.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/fd.h"

namespace weft {

// open(); never makes a terminal the controlling one. `mode`: of a file that it creates.
UniqueFd OpenFile(const std::string& path, int flags, mode_t mode = 0);

// mkostemp(): of mode 0600, and `path`'s last six letters, XXXXXX, are replaced.
UniqueFd CreateTemporaryFile(std::string* path);

struct CloseFolder {
  void operator()(DIR* folder) const { (void)closedir(folder); }
};

// opendir(); nullptr on failure.
std::unique_ptr<DIR, CloseFolder> OpenFolder(const std::string& path);

// memfd_create(), which may be sealed.
UniqueFd CreateMemoryFile(const char* name);

// A copy of `fd`, which may be anything.
UniqueFd DuplicateFd(int fd);

// dup3(): lets `fd`, which is one of this header's, be a copy of `other` from now on; false on failure.
bool ReplaceFd(int fd, int other);

struct PipeEnds {
  UniqueFd read;
  UniqueFd write;

  bool valid() const { return read.valid() && write.valid(); }
};

PipeEnds MakePipe();

// A non-blocking socket(); `type` is SOCK_STREAM, SOCK_SEQPACKET or SOCK_DGRAM.
UniqueFd MakeSocket(int family, int type);

// accept4(), non-blocking. Both may be nullptr.
UniqueFd AcceptSocket(int listener, sockaddr* address, socklen_t* address_bytes);

// recvmsg() that does not wait. The descriptors that came are put at the end of `fds`; what the control message holds is not to
// be used.
ssize_t ReceiveWithFds(int socket, msghdr* message, std::vector<UniqueFd>* fds);

// Non-blocking.
UniqueFd MakeEvent(unsigned count);
UniqueFd MakeMonotonicTimer();
UniqueFd MakeSignalFd(const sigset_t& signals);
UniqueFd MakeEpoll();

// pidfd_open(), and pidfd_getfd(): a copy of descriptor `fd` of the process behind `pidfd`.
UniqueFd OpenProcess(pid_t pid);
UniqueFd CopyFdOf(int pidfd, int fd);

}  // namespace weft
