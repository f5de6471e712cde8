#include "base/new_fd.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/standard_fds.h"
#include "base/text.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_calls.h"

namespace weft::test::new_fd_test {
namespace {

constexpr unsigned kAllStreams = 1U << (kStandardFdMax + 1);

// Closes descriptor i for each bit i.
void CloseStreams(unsigned bits) {
  for (int fd = 0; fd <= kStandardFdMax; ++fd)
    if ((bits >> fd & 1) != 0) close(fd);
}

void SendFd(int socket, int fd) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  (void)!sendmsg(socket, &message, MSG_NOSIGNAL);
}

UniqueFd Received(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  std::vector<UniqueFd> fds;
  if (ReceiveWithFds(socket, &message, &fds) != 1 || fds.size() != 1) return UniqueFd();
  return std::move(fds[0]);
}

struct Made {
  const char* how;
  UniqueFd fd;
};

// One of each kind, but for those of files; `ends` are connected unix sockets that were made before.
std::vector<Made> MakeEachKind(const int ends[2]) {
  std::vector<Made> made;
  made.push_back({"memory", CreateMemoryFile("weft-test")});
  made.push_back({"copy", DuplicateFd(ends[0])});
  PipeEnds pipe = MakePipe();
  made.push_back({"pipe", std::move(pipe.read)});
  made.push_back({"pipe's other end", std::move(pipe.write)});
  made.push_back({"socket", MakeSocket(AF_UNIX, SOCK_STREAM)});
  made.push_back({"event", MakeEvent(0)});
  made.push_back({"timer", MakeMonotonicTimer()});
  sigset_t signals;
  sigemptyset(&signals);
  made.push_back({"signals", MakeSignalFd(signals)});
  made.push_back({"epoll", MakeEpoll()});
  SendFd(ends[0], ends[0]);
  made.push_back({"received", Received(ends[1])});
  // A kernel or a sandbox may refuse the next two.
  if (UniqueFd process = OpenProcess(getpid()); process.valid()) {
    if (UniqueFd copy = CopyFdOf(process.get(), ends[0]); copy.valid())
      made.push_back({"another process's", std::move(copy)});
    made.push_back({"process", std::move(process)});
  }
  return made;
}

// What is wrong with them, or nothing.
std::string Check(const std::vector<Made>& made) {
  for (const auto& [how, fd] : made) {
    if (fd.get() <= kStandardFdMax) return StrCat(how, ": descriptor ", fd.get());
    if ((fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) == 0) return StrCat(how, ": exec leaves it open");
  }
  return "";
}

bool IsDevNull(int fd) {
  struct stat one = {};
  struct stat null = {};
  return fstat(fd, &one) == 0 && stat("/dev/null", &null) == 0 && one.st_rdev == null.st_rdev &&
         S_ISCHR(one.st_mode);
}

TEST(NewFd, LeavesTheNumbersOfClosedStreamsAlone) {
  for (unsigned closed = 0; closed < kAllStreams; ++closed) {
    EXPECT_EQ(InChild([closed]() -> std::string {
                int ends[2];
                if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return "no sockets";
                CloseStreams(closed);
                std::vector<Made> made = MakeEachKind(ends);
                std::string path = "/tmp/weft-new-fd-XXXXXX";
                made.push_back({"temporary file", CreateTemporaryFile(&path)});
                unlink(path.c_str());
                made.push_back({"file", OpenFile("/proc/self/stat", O_RDONLY)});
                const auto folder = OpenFolder("/proc/self/fd");
                if (folder == nullptr || dirfd(folder.get()) <= kStandardFdMax) return "the folder";
                for (int fd = 0; fd <= kStandardFdMax; ++fd) {
                  if ((closed >> fd & 1) == 0) continue;
                  if (!IsDevNull(fd)) return StrCat(fd, " is not /dev/null");
                  if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return StrCat(fd, " outlives exec");
                }
                return Check(made);
              }),
              "")
        << "closed: " << closed;
  }
}

TEST(NewFd, IsMovedWhereThereIsNoDevNull) {
  for (unsigned closed = 0; closed < kAllStreams; ++closed) {
    EXPECT_EQ(InChild([closed]() -> std::string {
                int ends[2];
                if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return "no sockets";
                if (const std::string refused = RefuseCalls({SYS_openat}, ENOENT); !refused.empty())
                  return refused;
                CloseStreams(closed);
                std::string wrong = Check(MakeEachKind(ends));
                if (!wrong.empty()) return wrong;
                for (int fd = 0; fd <= kStandardFdMax; ++fd) {
                  const bool open = fcntl(fd, F_GETFD) >= 0;
                  if (open == ((closed >> fd & 1) != 0)) return StrCat(fd, " is another now");
                }
                return "";
              }),
              "")
        << "closed: " << closed;
  }
}

TEST(NewFd, StreamsThatAreOpenStayWhatTheyAre) {
  EXPECT_EQ(InChild([]() -> std::string {
              int ends[2];
              if (pipe(ends) != 0) return "no pipe";
              close(0);
              dup2(ends[1], 1);
              dup2(ends[1], 2);
              HoldStandardFds();
              if (!IsDevNull(0) || write(1, "a", 1) != 1 || write(2, "b", 1) != 1) return "streams";
              char text[2] = {};
              return read(ends[0], text, 2) == 2 && text[0] == 'a' && text[1] == 'b' ? "" : "text";
            }),
            "");
}

TEST(NewFd, SaysWhyThereIsNone) {
  EXPECT_FALSE(OpenFile("/proc/none", O_RDONLY).valid());
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(OpenFolder("/proc/self/stat"), nullptr);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_FALSE(DuplicateFd(-1).valid());
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace weft::test::new_fd_test
