#include "base/child_descriptors.h"

#include <csignal>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
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

TEST(ChildDescriptors, MoreThanThereIsRoomForAreNotKept) {
  std::vector<Ends> many(3);
  constexpr int kNone = 1'000'000;  // numbers that no descriptor has
  for (int i = 0; i < kKeptMax; ++i)
    KeepFromChildren(kNone + i);
  KeepFromChildren(many[0].own.get());
  for (int i = 0; i < kKeptMax; ++i)
    ForgetKept(kNone + i);
  KeepFromChildren(many[1].own.get());
  const Child child([] { return true; });
  for (Ends& ends : many) {
    ForgetKept(ends.own.get());
    ends.own.Reset();
  }
  EXPECT_FALSE(many[0].Ended(50));
  EXPECT_TRUE(many[1].Ended(10'000));
}

}  // namespace
}  // namespace weft
