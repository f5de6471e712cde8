// Rank 0 finds the name of its store's socket taken.
#include "comm/rendezvous/name_owner.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "comm/rendezvous/store_host.h"
#include "tests/comm/rendezvous/served_store.h"

namespace {

// Another user's process cannot be made without privileges; that this one is another user's can.
bool somebody_else = false;

}  // namespace

extern "C" uid_t geteuid() noexcept {
  const auto real = static_cast<uid_t>(syscall(SYS_geteuid));
  return somebody_else ? real + 1 : real;
}

namespace weft::test {
namespace {

using ::testing::HasSubstr;

class TakenName : public ::testing::Test {
 protected:
  ~TakenName() override { somebody_else = false; }

  // A socket that has the name.
  UniqueFd Take(bool listens) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::copy(endpoint_.host.begin(), endpoint_.host.end(), address.sun_path + 1);
    const auto bytes =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint_.host.size());
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    if (listens) {
      EXPECT_EQ(listen(fd.get(), 8), 0);
    }
    return fd;
  }

  absl::Status Start(double seconds) {
    std::vector<Endpoint> endpoints = {endpoint_};
    const auto host = StoreHost::Start({}, &endpoints, In(seconds));
    if (host.ok()) (*host)->Stop(In(10));
    return host.status();
  }

  const Endpoint endpoint_ = UnixEndpoint("taken");
};

TEST_F(TakenName, OfAnotherUserIsSaidAtOnceWithItsOwner) {
  const UniqueFd squatter = Take(true);
  somebody_else = true;
  const int64_t start_ns = MonotonicNs();
  const absl::Status status = Start(100);
  EXPECT_LT(MonotonicNs() - start_ns, 20 * kSecondNs);
  EXPECT_EQ(ResultOf(status), WEFT_AUTH_FAILED) << status;
  EXPECT_EQ(FieldsOf(status).pid, getpid());
  const std::string user = std::to_string(syscall(SYS_geteuid));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("process " + std::to_string(getpid()) + " of user " + user));
  EXPECT_THAT(std::string(status.message()), HasSubstr("MASTER_PORT"));
}

TEST_F(TakenName, ByAProcessThatDoesNotListenIsSaidSoon) {
  const UniqueFd squatter = Take(false);
  const int64_t start_ns = MonotonicNs();
  const absl::Status status = Start(100);
  EXPECT_LT(MonotonicNs() - start_ns, 20 * kSecondNs);
  EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("accepts no connections"));
}

TEST_F(TakenName, OfTheSameUserIsWaitedFor) {
  UniqueFd before = Take(true);
  std::thread ends([&] {
    PollItem item{.handle = before.get(), .want_read = true};
    EXPECT_TRUE(SystemSeams().net->Poll({&item, 1}, In(20)).ok());  // rank 0 has asked who it is
    before.Reset();
  });
  const absl::Status status = Start(20);
  ends.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TakenName, OfTheSameUserIsAnErrorAtTheDeadline) {
  const UniqueFd before = Take(true);
  const absl::Status status = Start(0.1);
  EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace weft::test
