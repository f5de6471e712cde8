// Names that the resolver does not know yet. It is replaced: getaddrinfo comes here.
#include <atomic>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/net.h"
#include "base/status.h"
#include "base/wait.h"

namespace {

std::atomic<int> asked = 0;
std::atomic<int> unknown_until = 0;  // so many are told that there is no such name
std::atomic<int> answer = EAI_NONAME;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" int __real_getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**);
extern "C" int __wrap_getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                                  addrinfo** found);

// NOLINTEND(bugprone-reserved-identifier)

int __wrap_getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                       addrinfo** found) {
  if (std::string(name) != "pod-0.service") return __real_getaddrinfo(name, service, hints, found);
  if (asked++ < unknown_until) return answer;
  return __real_getaddrinfo("127.0.0.9", service, hints, found);
}

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;

// The warnings that are logged while it lives.
class Warnings {
 public:
  Warnings() {
    SetLogCallback(
        [](weft_log_level_t, const char* message, void* user) {
          static_cast<std::vector<std::string>*>(user)->emplace_back(message);
        },
        &lines_);
  }

  ~Warnings() { SetLogCallback(nullptr, nullptr); }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

void Begin(int unknown, int error) {
  asked = 0;
  unknown_until = unknown;
  answer = error;
}

TEST(ResolveHost, WaitsForANameThatAppearsAndSaysNothingIfThatIsSoon) {
  for (const int error : {EAI_NONAME, EAI_AGAIN}) {
    const Warnings warnings;
    Begin(2, error);
    const absl::StatusOr<std::string> host =
        ResolveHost("pod-0.service", MonotonicNs() + 60 * kSecondNs);
    ASSERT_TRUE(host.ok()) << host.status();
    EXPECT_EQ(*host, "127.0.0.9");
    EXPECT_EQ(asked, 3);
    EXPECT_TRUE(warnings.lines().empty());
  }
}

TEST(ResolveHost, SaysForWhatItWaits) {
  const Warnings warnings;
  Begin(6, EAI_NONAME);
  ASSERT_TRUE(ResolveHost("pod-0.service", MonotonicNs() + 60 * kSecondNs).ok());
  ASSERT_EQ(warnings.lines().size(), 1u) << "once";
  EXPECT_THAT(warnings.lines()[0],
              HasSubstr("the host name pod-0.service is not known here (Name or "
                        "service not known); waiting for it, at most 5"));
}

TEST(ResolveHost, GivesUpAtTheDeadlineWithWhatTheResolverSays) {
  Begin(1000, EAI_NONAME);
  const absl::Status status = ResolveHost("pod-0.service", MonotonicNs() + kSecondNs).status();
  EXPECT_EQ(ResultOf(status), WEFT_UNREACHABLE);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("could not resolve the host name pod-0.service: Name or service not known"));
  EXPECT_GT(asked, 1);
}

TEST(ResolveHost, EndsWhenItIsInterrupted) {
  Begin(1000, EAI_NONAME);
  int looks = 0;
  SetInterrupt({.check = [](void* user) { return ++*static_cast<int*>(user) > 3 ? 1 : 0; },
                .user = &looks,
                .every_ns = 10'000'000});
  const absl::Status status =
      ResolveHost("pod-0.service", MonotonicNs() + 1000 * kSecondNs).status();
  SetInterrupt({});
  EXPECT_EQ(ResultOf(status), WEFT_INTERRUPTED) << status;
}

}  // namespace
}  // namespace weft
