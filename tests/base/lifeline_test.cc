// How a process learns that another one has ended, by what that one sent of itself.
#include "base/lifeline.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/wait.h"

namespace {

bool refuse_pidfds = false;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" long __real_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, ...);

// NOLINTEND(bugprone-reserved-identifier)

// The linker sends calls of syscall() here.
long __wrap_syscall(long number, ...) {
  if (number == SYS_pidfd_open && refuse_pidfds) {
    errno = EPERM;
    return -1;
  }
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments)
    argument = va_arg(list, long);
  va_end(list);
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}

namespace weft {
namespace {

// A child that sends its lifeline here, and then does `then`.
class Child {
 public:
  explicit Child(const std::function<void()>& then) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      auto lifeline = OwnLifeline();
      if (!lifeline.ok()) _exit(1);
      Send(ends[1], *lifeline, SystemProc().Self().start_time);
      then();
      _exit(0);
    }
    close(ends[1]);
    Receive(ends[0]);
    close(ends[0]);
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  int pid() const { return pid_; }

  Lifeline::Kind kind() const { return kind_; }

  PeerProcess& process() const { return *process_; }

  bool EndsSoon() const {
    pollfd item{process_->fd(), POLLIN, 0};
    if (poll(&item, 1, 20'000) != 1) return false;
    const int64_t start_ns = MonotonicNs();
    while (!process_->Ended() && MonotonicNs() - start_ns < 20'000'000'000)
      sched_yield();
    return process_->Ended();
  }

 private:
  struct Words {
    Lifeline::Kind kind;
    uint64_t start_time;
  };

  static void Send(int socket, const Lifeline& lifeline, uint64_t start_time) {
    Words words{lifeline.kind, start_time};
    iovec data{&words, sizeof(words)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = lifeline.fd.get();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    if (sendmsg(socket, &header, 0) < 0) _exit(2);
  }

  void Receive(int socket) {
    Words words{};
    iovec data{&words, sizeof(words)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    ASSERT_GT(recvmsg(socket, &header, MSG_CMSG_CLOEXEC), 0);
    ASSERT_NE(CMSG_FIRSTHDR(&header), nullptr);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
    kind_ = words.kind;
    auto process = SystemProc().Watch({UniqueFd(fd), words.kind}, pid_, words.start_time);
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = std::move(*process);
  }

  int pid_ = -1;
  Lifeline::Kind kind_ = Lifeline::Kind::kPidfd;
  std::unique_ptr<PeerProcess> process_;
};

[[noreturn]] void Wait() {
  while (true)
    pause();
}

class Lifelines : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { refuse_pidfds = GetParam(); }

  void TearDown() override { refuse_pidfds = false; }
};

TEST_P(Lifelines, TellThatAProcessLivesAndHowItEnded) {
  const Child child(Wait);
  EXPECT_EQ(child.kind(), GetParam() ? Lifeline::Kind::kPipe : Lifeline::Kind::kPidfd);
  EXPECT_FALSE(child.process().Ended());
  EXPECT_EQ(child.process().visible_pid(), child.pid());
  kill(child.pid(), SIGSTOP);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED), 0);
  EXPECT_FALSE(child.process().Ended());
  kill(child.pid(), SIGKILL);
  ASSERT_TRUE(child.EndsSoon());
  EXPECT_EQ(child.process().Exit().signal, SIGKILL);
}

// What a child of the process holds is not the process.
TEST_P(Lifelines, EndWithTheProcessAndNotWithItsChildren) {
  int grandchild[2];
  ASSERT_EQ(pipe(grandchild), 0);
  const Child child([&] {
    const pid_t forked = fork();
    if (forked == 0) Wait();
    (void)!write(grandchild[1], &forked, sizeof(forked));
    _exit(0);
  });
  EXPECT_TRUE(child.EndsSoon());
  pid_t forked = -1;
  ASSERT_EQ(read(grandchild[0], &forked, sizeof(forked)), static_cast<ssize_t>(sizeof(forked)));
  EXPECT_EQ(kill(forked, 0), 0);
  kill(forked, SIGKILL);
  close(grandchild[0]);
  close(grandchild[1]);
}

// A forked child has one of its own.
TEST_P(Lifelines, OfAForkedChildAreItsOwn) {
  const auto parents = OwnLifeline();
  ASSERT_TRUE(parents.ok());
  const Child child(Wait);
  kill(child.pid(), SIGKILL);
  EXPECT_TRUE(child.EndsSoon());
  pollfd own{parents->fd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&own, 1, 0), 0);
}

// Programs that close every descriptor they know nothing of live on.
TEST_P(Lifelines, OfALivingProcessThatClosesItsDescriptorsDoNotTellItsEnd) {
  const Child child([] {
    for (int fd = 3; fd < 64; ++fd)
      close(fd);
    raise(SIGSTOP);
    Wait();
  });
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED), 0);
  EXPECT_FALSE(child.process().Ended());
  kill(child.pid(), SIGKILL);
  EXPECT_TRUE(child.EndsSoon());
  EXPECT_EQ(child.process().Exit().signal, SIGKILL);
}

TEST_P(Lifelines, AreRefusedWithoutADescriptor) {
  EXPECT_FALSE(SystemProc().Watch({UniqueFd(), Lifeline::Kind::kPidfd}, getpid(), 0).ok());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutPidfds, Lifelines, testing::Bool());

// The number is somebody else's, as that of a process of another namespace may be.
TEST(Lifeline, OfAnotherNamespaceIsNotLookedUpByNumber) {
  refuse_pidfds = true;
  auto own = OwnLifeline();
  refuse_pidfds = false;
  ASSERT_TRUE(own.ok());
  const uint64_t other_start = SystemProc().Self().start_time + 1;
  auto process = SystemProc().Watch(std::move(*own), getpid(), other_start);
  ASSERT_TRUE(process.ok());
  EXPECT_FALSE((*process)->Ended());
  EXPECT_EQ((*process)->visible_pid(), 0);
}

}  // namespace
}  // namespace weft
