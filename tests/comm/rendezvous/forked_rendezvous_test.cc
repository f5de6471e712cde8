// Ranks that are forked from a process that serves their store: whatever its other threads held at the
// fork, the children join, and end.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/store_host.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/parked_thread.h"

namespace weft::test {
namespace {

constexpr double kChildSeconds = 20;
constexpr int kLocksMax = 500;

int64_t In(double seconds) {
  return MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
}

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

void IgnoreLog(weft_log_level_t, const char*, void*) {}

// What a rank does that was forked after the id was made.
std::string JoinAndLog(const weft_unique_id_t& id, int rank) {
  LogWarn("a rank that was forked");
  const absl::StatusOr<Rendezvous> place = RendezvousFromId(id, 60'000, rank, In(kChildSeconds));
  if (!place.ok()) return Text(place.status());
  if (const absl::Status set = Set(*place->store, "here", "", In(kChildSeconds)); !set.ok()) {
    return Text(set);
  }
  return CreateUniqueId().ok() ? "" : "no id of its own";
}

// Forks with the k-th lock of `body` held, for each k; returns how many there are.
int ForkInEachLock(const weft_unique_id_t& id, AtEnd at_end, const std::function<void(int)>& body) {
  for (int k = 1; k < kLocksMax; ++k) {
    ParkedThread thread(k, [&] { body(k); });
    if (!thread.parked()) return k - 1;
    const std::string problem =
        RunForkedChild(kChildSeconds, at_end, [&] { return JoinAndLog(id, k); });
    EXPECT_EQ(problem, "") << "at lock " << k;
    if (!problem.empty()) break;
  }
  return kLocksMax;
}

// The program's own threads use libcrypto, too. libcrypto's exit handler, which is there because they do, takes its
// locks: that is between the two.
TEST(ForkedRank, JoinsWhateverLockOfLibcryptoWasHeld) {
  const absl::StatusOr<weft_unique_id_t> id = CreateUniqueId();
  ASSERT_TRUE(id.ok()) << id.status();
  // A property query that is new makes libcrypto look for the algorithm again.
  const int locks = ForkInEachLock(*id, AtEnd::kNothing, [](int k) {
    const std::string query = "?weft.test=" + std::to_string(k);
    EVP_MD_free(EVP_MD_fetch(nullptr, "SHA256", query.c_str()));
  });
  EXPECT_GE(locks, 3) << "the loop tests nothing";
  EXPECT_LT(locks, kLocksMax);
}

TEST(ForkedRank, JoinsWhateverLockOfWeftWasHeld) {
  SetLogCallback(IgnoreLog, nullptr);
  const absl::StatusOr<weft_unique_id_t> id = CreateUniqueId();
  ASSERT_TRUE(id.ok()) << id.status();
  const int locks = ForkInEachLock(*id, AtEnd::kExitHandlers, [](int) {
    const absl::StatusOr<weft_unique_id_t> other = CreateUniqueId();
    ASSERT_TRUE(other.ok()) << other.status();
    ASSERT_TRUE(RendezvousFromId(*other, 1, 0, In(kChildSeconds)).ok());
    LogWarn("a line");
  });
  SetLogCallback(nullptr, nullptr);
  EXPECT_GE(locks, 4) << "the loop tests nothing";
  EXPECT_LT(locks, kLocksMax);
}

// What holds a listener keeps its name in use, and lets those wait who connect.
TEST(ForkedChild, HoldsNoListenerOfItsParent) {
  const std::string name = "weft-test-listener-" + std::to_string(getpid());
  const auto start = [&]() -> absl::StatusOr<std::shared_ptr<StoreHost>> {
    std::vector<Endpoint> endpoints = {{.kind = Endpoint::Kind::kUnix, .host = name}};
    return StoreHost::Start({}, &endpoints, MonotonicNs());
  };
  absl::StatusOr<std::shared_ptr<StoreHost>> host = start();
  ASSERT_TRUE(host.ok()) << host.status();
  int wait[2];
  int begun[2];
  ASSERT_EQ(pipe(wait), 0);
  ASSERT_EQ(pipe(begun), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {  // lives until the parent closes the pipe
    close(wait[1]);
    if (write(begun[1], &byte, 1) != 1) _exit(1);
    _exit(read(wait[0], &byte, 1) == 0 ? 0 : 1);
  }
  ASSERT_EQ(read(begun[0], &byte, 1),
            1);  // fork has returned there: until then it has the parent's descriptors
  EXPECT_TRUE((*host)->Stop(In(10)));
  const absl::Status again = start().status();
  EXPECT_TRUE(again.ok()) << again;
  for (const int fd : {wait[0], wait[1], begun[0], begun[1]})
    close(fd);
}

}  // namespace
}  // namespace weft::test
