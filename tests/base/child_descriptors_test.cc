#include "base/child_descriptors.h"

#include <csignal>
#include <limits>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

namespace weft {
namespace {

struct Ends {
  Ends() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    own = UniqueFd(fds[0]);
    other = UniqueFd(fds[1]);
  }

  // The other end hears that nobody has this one any more.
  bool Ended(int timeout_ms) const {
    pollfd item = {other.get(), POLLIN, 0};
    return poll(&item, 1, timeout_ms) == 1;
  }

  UniqueFd own;
  UniqueFd other;
};

// Runs `check` in a child, which then lives until the object goes.
class Child {
 public:
  template <typename Check>
  explicit Child(const Check& check) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char right = check() ? 1 : 0;
      (void)!write(ready[1], &right, 1);
      (void)alarm(60);
      while (true)
        pause();
    }
    char right = 0;
    EXPECT_EQ(read(ready[0], &right, 1), 1);
    EXPECT_EQ(right, 1);
    close(ready[0]);
    close(ready[1]);
  }

  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST(ChildDescriptors, TheOtherEndHearsOfAnEndThoughAChildLives) {
  Ends kept;
  Ends forgotten;
  Ends plain;
  KeepFromChildren(kept.own.get());
  KeepFromChildren(forgotten.own.get());
  ForgetKept(forgotten.own.get());
  ForgetKept(plain.own.get());  // which never was
  const Child child([&] {
    // The numbers are taken in the child, so that closing them there closes nothing else.
    struct stat about = {};
    return fcntl(kept.own.get(), F_GETFD) == FD_CLOEXEC && fstat(kept.own.get(), &about) == 0 &&
           !S_ISSOCK(about.st_mode) && fstat(plain.own.get(), &about) == 0 &&
           S_ISSOCK(about.st_mode);
  });
  for (Ends* const ends : {&kept, &forgotten, &plain}) {
    ForgetKept(ends->own.get());
    ends->own.Reset();
  }
  EXPECT_TRUE(kept.Ended(10'000));
  EXPECT_FALSE(forgotten.Ended(50));
  EXPECT_FALSE(plain.Ended(0));
}

TEST(ChildDescriptors, AsManyAsThereAreAreKept) {
  constexpr int kMany = 1500;
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 2 * kMany + 100)
    GTEST_SKIP() << "this user may have " << limit.rlim_cur << " files";
  std::vector<Ends> many(kMany);
  for (const Ends& ends : many)
    KeepFromChildren(ends.own.get());
  const Child child([] { return true; });
  for (Ends& ends : many) {
    ForgetKept(ends.own.get());
    ends.own.Reset();
  }
  for (const Ends& ends : many)
    ASSERT_TRUE(ends.Ended(10'000));
}

TEST(ChildDescriptors, NumbersThatNoDescriptorHasAreNotKept) {
  Ends kept;
  for (const int fd : {-1, kKeptEnd, kKeptEnd + 1, std::numeric_limits<int>::max()}) {
    ForgetKept(fd);
    KeepFromChildren(fd);
  }
  KeepFromChildren(kept.own.get());
  const Child child([] { return true; });
  ForgetKept(kept.own.get());
  kept.own.Reset();
  EXPECT_TRUE(kept.Ended(10'000));
}

// A number that is made anew while another thread closes its own: neither takes the other's bit.
TEST(ChildDescriptors, ThreadsDoNotTakeEachOthers) {
  Ends first, second;
  KeepFromChildren(first.own.get());
  std::thread other([&] {
    for (int i = 0; i < 100'000; ++i) {
      KeepFromChildren(second.own.get());
      ForgetKept(second.own.get());
    }
  });
  for (int i = 0; i < 100'000; ++i) {
    ForgetKept(first.own.get());
    KeepFromChildren(first.own.get());
  }
  other.join();
  const Child child([] { return true; });
  for (Ends* const ends : {&first, &second}) {
    ForgetKept(ends->own.get());
    ends->own.Reset();
  }
  EXPECT_TRUE(first.Ended(10'000));
  EXPECT_FALSE(second.Ended(50));
}

}  // namespace
}  // namespace weft
