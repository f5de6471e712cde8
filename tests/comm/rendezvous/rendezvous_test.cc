// From an id or a launcher's variables to a membership, with ranks as processes.
#include "comm/rendezvous/rendezvous.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/unique_id.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/in_child.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"

namespace weft::test::rendezvous_test {
namespace {

using ::testing::HasSubstr;

int64_t In(double seconds) {
  return MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
}

// Joins and compares; "" if all is well.
std::string Exchange(const absl::StatusOr<Rendezvous>& rendezvous, int rank, int size,
                     double seconds) {
  if (!rendezvous.ok()) return std::string(rendezvous.status().message());
  if (rendezvous->rank != rank || rendezvous->size != size) return "wrong rank or size";
  const GroupMember self = DescribeSelf(rank);
  MemberWatch watch(*SystemSeams().proc, self, "world");
  const absl::StatusOr<Membership> members =
      ExchangeMembership(*rendezvous->store, "world", rank, size, self, In(seconds), watch);
  if (!members.ok()) return std::string(members.status().message());
  if (members->members.size() != static_cast<size_t>(size)) return "wrong number of members";
  return members->members[rank].pid == getpid() ? "" : "wrong pid";
}

void SetTorchrun(int rank, int size, const std::string& port) {
  for (const char* name : {"WEFT_STORE", "WEFT_INSECURE", "WEFT_JOB_SECRET_FILE"})
    unsetenv(name);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port.c_str(), 1);
}

// Different for each test and process: nothing listens on it on one node, it only names the job.
std::string JobPort(int test) {
  return std::to_string(20000 + (getpid() * 16 + test) % 20000);
}

void ExpectAllFine(const std::vector<RankEnd>& ends) {
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << rank;
}

TEST(Rendezvous, FromTheEnvironmentOnOneNodeNeedsNoSecret) {
  for (const int size : {2, 4, 8}) {
    const std::string port = JobPort(size);
    ExpectAllFine(RunForkedRanks(size, 60, [&](int rank) {
      SetTorchrun(rank, size, port);
      return Exchange(RendezvousFromEnvironment(In(30)), rank, size, 30);
    }));
  }
}

TEST(Rendezvous, ManyOneAfterTheOther) {
  const std::string port = JobPort(1);
  ExpectAllFine(RunForkedRanks(3, 60, [&](int rank) -> std::string {
    SetTorchrun(rank, 3, port);
    for (int i = 0; i < 20; ++i) {
      std::string problem = Exchange(RendezvousFromEnvironment(In(30)), rank, 3, 30);
      if (!problem.empty()) return StrCat("round ", i, ": ", problem);
    }
    return "";
  }));
}

TEST(Rendezvous, FromAnIdThatOneProcessMade) {
  for (const int size : {1, 2, 4}) {
    // The id goes from rank 0 to the others through a pipe each.
    std::vector<std::array<int, 2>> pipes(static_cast<size_t>(size));
    for (auto& ends : pipes)
      ASSERT_EQ(pipe(ends.data()), 0);
    ExpectAllFine(RunForkedRanks(size, 60, [&](int rank) -> std::string {
      weft_unique_id_t id;
      if (rank == 0) {
        const absl::StatusOr<weft_unique_id_t> made = CreateUniqueId();
        if (!made.ok()) return std::string(made.status().message());
        id = *made;
        for (auto& ends : pipes) {
          if (write(ends[1], &id, sizeof(id)) != sizeof(id)) return "pipe";
        }
      } else if (read(pipes[rank][0], &id, sizeof(id)) != sizeof(id)) {
        return "pipe";
      }
      const absl::StatusOr<Rendezvous> rendezvous = RendezvousFromId(id, size, rank, In(30));
      if (size == 1) return rendezvous.ok() && !rendezvous->store ? "" : "a world of one";
      return Exchange(rendezvous, rank, size, 30);
    }));
    for (auto& ends : pipes) {
      close(ends[0]);
      close(ends[1]);
    }
  }
}

TEST(Rendezvous, AMissingRankIsNamedAtTheDeadline) {
  const std::string port = JobPort(2);
  const int64_t start_ns = MonotonicNs();
  const std::vector<RankEnd> ends = RunForkedRanks(3, 60, [&](int rank) -> std::string {
    if (rank == 2) return "";
    SetTorchrun(rank, 3, port);
    return Exchange(RendezvousFromEnvironment(In(2)), rank, 3, 2);
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(ends[rank].Problem(),
                HasSubstr("1 of 3 ranks did not come within 2.0 s: missing 2"));
  }
  EXPECT_LT(MonotonicNs() - start_ns, int64_t{20} * 1'000'000'000);
}

TEST(Rendezvous, TheSameRankTwiceIsNamedAndTheOthersJoin) {
  const std::string port = JobPort(3);
  // Rank 2 comes when the second rank 1 has been refused, so that the group is still open then.
  int refused[2];
  ASSERT_EQ(pipe(refused), 0);
  const std::vector<RankEnd> ends = RunForkedRanks(4, 60, [&](int process) {
    const int rank = process == 3 ? 1 : process;
    SetTorchrun(rank, 3, port);
    char byte = 0;
    if (rank == 2 && read(refused[0], &byte, 1) != 1) return std::string("pipe");
    std::string problem = Exchange(RendezvousFromEnvironment(In(30)), rank, 3, 30);
    if (rank == 1 && !problem.empty() && write(refused[1], &byte, 1) != 1) problem += "; pipe";
    return problem;
  });
  close(refused[0]);
  close(refused[1]);
  EXPECT_EQ(ends[0].Problem(), "");
  EXPECT_EQ(ends[2].Problem(), "");
  const RankEnd& loser = ends[1].said.empty() ? ends[3] : ends[1];
  EXPECT_TRUE(ends[1].said.empty() != ends[3].said.empty());
  EXPECT_THAT(loser.Problem(), HasSubstr(StrCat("pid ", ends[1].pid)));
  EXPECT_THAT(loser.Problem(), HasSubstr(StrCat("pid ", ends[3].pid)));
}

TEST(Rendezvous, ADeadRankZeroIsNamed) {
  const std::string port = JobPort(4);
  const std::vector<RankEnd> ends = RunForkedRanks(2, 60, [&](int rank) -> std::string {
    SetTorchrun(rank, 2, port);
    const absl::StatusOr<Rendezvous> rendezvous = RendezvousFromEnvironment(In(30));
    if (!rendezvous.ok()) return std::string(rendezvous.status().message());
    if (rank == 0) {
      if (!Wait(*rendezvous->store, "rank 1 is here", In(30)).ok()) return "no rank 1";
      raise(SIGKILL);
    }
    // Rank 0 may die before it has answered this, or after.
    const absl::Status set = Set(*rendezvous->store, "rank 1 is here", "", In(30));
    if (!set.ok()) return std::string(set.message());
    return Exchange(rendezvous, rank, 2, 30);
  });
  EXPECT_THAT(ends[1].Problem(), HasSubstr("rank 0 has probably ended"));
}

TEST(Rendezvous, SeveralNodesWithoutASecretAreRefused) {
  const std::string port = JobPort(5);
  const std::vector<RankEnd> ends = RunForkedRanks(2, 60, [&](int rank) {
    SetTorchrun(rank, 2, port);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    return Exchange(RendezvousFromEnvironment(In(30)), rank, 2, 30);
  });
  for (const RankEnd& end : ends)
    EXPECT_THAT(end.Problem(), HasSubstr("WEFT_INSECURE=1"));
}

TEST(Rendezvous, SeveralNodesMeetOverTcpWithASecretFile) {
  const std::string port = JobPort(6);
  char path[] = "/tmp/weft-secret-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  const std::string secret = "thirty-two bytes or more of test secret";
  ASSERT_EQ(write(fd, secret.data(), secret.size()), static_cast<ssize_t>(secret.size()));
  close(fd);
  ExpectAllFine(RunForkedRanks(3, 60, [&](int rank) -> std::string {
    SetTorchrun(rank, 3, port);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("WEFT_JOB_SECRET_FILE", path, 1);
    for (int i = 0; i < 5; ++i) {
      std::string problem = Exchange(RendezvousFromEnvironment(In(30)), rank, 3, 30);
      if (!problem.empty()) return StrCat("round ", i, ": ", problem);
    }
    return "";
  }));
  unlink(path);
}

// As Debian gives the machine's own name to 127.0.1.1.
TEST(Rendezvous, AMasterThatResolvesToLoopbackIsSaidAtOnce) {
  const std::string said = InChild([]() -> std::string {
    if (!EnterOwnMounts()) return "skip";
    char hosts[] = "/tmp/weft-hosts-XXXXXX";
    const int fd = mkstemp(hosts);
    constexpr char kText[] = "127.0.0.1 localhost\n127.0.1.1 weft-node1\n";
    if (fd < 0 || write(fd, kText, sizeof(kText) - 1) < 0) return "no file";
    const bool mounted = mount(hosts, "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
    unlink(hosts);
    if (!mounted) return "skip";
    char secret[] = "/tmp/weft-secret-XXXXXX";
    const int file = mkstemp(secret);
    const std::string text(64, 'a');
    if (file < 0 || write(file, text.data(), text.size()) < 0) return "no file";
    std::string log;
    SetLogCallback([](weft_log_level_t, const char* message,
                      void* text) { *static_cast<std::string*>(text) += message; },
                   &log);
    SetTorchrun(0, 2, std::to_string(20'000 + getpid() % 10'000));
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("WEFT_JOB_SECRET_FILE", secret, 1);
    for (const char* master : {"localhost", "127.0.0.1", "weft-node1"}) {
      setenv("MASTER_ADDR", master, 1);
      const absl::StatusOr<Rendezvous> place = RendezvousFromEnvironment(In(20));
      if (!place.ok()) return std::string(place.status().message());
      const bool warned = log.find("is the loopback address") != std::string::npos;
      if (warned != (std::string_view(master) == "weft-node1")) return StrCat(master, ": ", log);
    }
    SetLogCallback(nullptr, nullptr);
    unlink(secret);
    return log;
  });
  if (said == "skip") GTEST_SKIP() << "no mounts of its own";
  EXPECT_THAT(said, HasSubstr("MASTER_ADDR=weft-node1 is the loopback address 127.0.1.1 on this "
                              "machine, which other nodes cannot reach"));
}

TEST(Rendezvous, ThreadsAsRanksLeaveNothingBehind) {
  const Holdings before = Holdings::Now();
  constexpr int kRanks = 4;
  const absl::StatusOr<weft_unique_id_t> id = CreateUniqueId();
  ASSERT_TRUE(id.ok()) << id.status();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      EXPECT_EQ(Exchange(RendezvousFromId(*id, kRanks, rank, In(30)), rank, kRanks, 30), "");
    });
  }
  for (std::thread& rank : ranks)
    rank.join();
  // The server's thread ends when it has read the last goodbye.
  const int64_t deadline_ns = In(10);
  while (Holdings::Now().Since(before) != "" && MonotonicNs() < deadline_ns)
    sched_yield();
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

// An id makes one group. Who comes with it again is told so, by this process or, where another one
// came before, by nobody who serves it any more; at once, though the deadline is far.
TEST(Rendezvous, AnIdThatWasUsedIsRefusedAtOnce) {
  struct Shared {
    std::atomic<int> made{0};
    std::atomic<int> exchanged{0};
    std::atomic<int> gone{0};
    weft_unique_id_t id;
  };

  const SharedValue<Shared> shared;
  const auto await = [](const std::atomic<int>& value, int want) {
    const int64_t until_ns = In(30);
    while (value.load() < want && MonotonicNs() < until_ns)
      usleep(100);
    return value.load() >= want;
  };
  ExpectAllFine(RunForkedRanks(3, 60, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    if (rank == 0) {
      const absl::StatusOr<weft_unique_id_t> made = CreateUniqueId();
      if (!made.ok()) return std::string(made.status().message());
      shared->id = *made;
      shared->made.store(1);
    }
    if (!await(shared->made, 1)) return "no id was made";
    const weft_unique_id_t id = shared->id;
    if (rank < 2) {
      std::string problem = Exchange(RendezvousFromId(id, 2, rank, In(500)), rank, 2, 30);
      if (!problem.empty()) return problem;
      const absl::Status again = RendezvousFromId(id, 2, rank, In(500)).status();
      const std::string said(again.message());
      if (ResultOf(again) != WEFT_INVALID_USAGE ||
          said.find("the unique id was used already") == std::string::npos) {
        return StrCat("again: ", said);
      }
      shared->exchanged.fetch_add(1);
    }
    if (!await(shared->exchanged, 2)) return "the others have not met";
    if (rank == 0) {
      const int64_t until_ns = In(10);
      while (!Holdings::Now().Since(before).empty() && MonotonicNs() < until_ns)
        usleep(1'000);
      shared->gone.store(1);
    }
    if (!await(shared->gone, 1)) return "the store is still there";
    if (rank < 2) return "";
    const absl::Status late = RendezvousFromId(id, 2, 1, In(500)).status();
    const std::string said(late.message());
    return ResultOf(late) == WEFT_UNREACHABLE &&
                   said.find("a group was made with the unique id already") != std::string::npos
               ? ""
               : StrCat("late: ", said);
  }));
}

TEST(Rendezvous, ImpossibleRanksAndIdsAreRefused) {
  const absl::StatusOr<weft_unique_id_t> id = CreateUniqueId();
  ASSERT_TRUE(id.ok());
  for (const auto& [size, rank] :
       std::vector<std::pair<int, int>>{{0, 0}, {2, 2}, {2, -1}, {-1, 0}, {1 << 30, 0}}) {
    EXPECT_EQ(ResultOf(RendezvousFromId(*id, size, rank, In(1)).status()), WEFT_INVALID_ARGUMENT);
  }
  for (size_t i = 0; i < sizeof(id->internal); ++i) {
    weft_unique_id_t changed = *id;
    changed.internal[i] = static_cast<char>(changed.internal[i] ^ 1);
    EXPECT_EQ(ResultOf(RendezvousFromId(changed, 2, 0, In(1)).status()), WEFT_INVALID_ARGUMENT)
        << i;
  }
  EXPECT_EQ(ResultOf(RendezvousFromId(weft_unique_id_t{}, 2, 0, In(1)).status()),
            WEFT_INVALID_ARGUMENT);
}

TEST(UniqueId, CarriesEverything) {
  UniqueId id;
  id.secret = std::string(32, 's');
  id.unix_socket.host = "weft-0123456789abcdef01";
  id.tcp = {.kind = Endpoint::Kind::kTcp,
            .host = "2001:0db8:1111:2222:3333:4444:5555:6666",
            .port = 65535};
  id.boot_hash = 0x0123456789abcdef;
  const absl::StatusOr<weft_unique_id_t> bytes = EncodeUniqueId(id);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<UniqueId> back = DecodeUniqueId(*bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->secret, id.secret);
  EXPECT_EQ(back->unix_socket, id.unix_socket);
  EXPECT_EQ(back->tcp, id.tcp);
  EXPECT_EQ(back->boot_hash, id.boot_hash);
}

}  // namespace
}  // namespace weft::test::rendezvous_test
