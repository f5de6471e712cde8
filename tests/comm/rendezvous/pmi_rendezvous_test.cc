// From PMI-1's variables to a membership, without MASTER_ADDR: the ranks are processes, and so is the
// launcher.
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/unique_id.h"
#include "tests/comm/rendezvous/pmi_launcher.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::pmi_rendezvous_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int64_t In(double seconds) {
  return MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
}

// A job of `size` ranks: what each rank says, "" if all is well. The launcher is one more process.
struct PmiJob {
  int size = 2;
  double seconds = 30;
  int rounds = 1;
  int absent_rank = -1;                           // does not come
  std::function<void(PmiLauncher&)> prepare;      // in the launcher
  std::function<void(int rank)> set_environment;  // in a rank, after the variables of PMI-1

  std::vector<RankEnd> Run() const;
  std::string RunRank(int rank) const;
};

void SetPmi(int rank, int size, int fd) {
  for (const char* name :
       {"WEFT_STORE", "WEFT_INSECURE", "WEFT_JOB_SECRET_FILE", "RANK", "WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "WEFT_MASTER_PORT", "SLURM_PROCID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}) {
    unsetenv(name);
  }
  setenv("PMI_RANK", StrCat(rank).c_str(), 1);
  setenv("PMI_SIZE", StrCat(size).c_str(), 1);
  setenv("PMI_FD", StrCat(fd).c_str(), 1);
}

std::string PmiJob::RunRank(int rank) const {
  for (int round = 0; round < rounds; ++round) {
    const absl::StatusOr<Rendezvous> rendezvous = RendezvousFromEnvironment(In(seconds));
    if (!rendezvous.ok()) {
      return StrCat(ResultOf(rendezvous.status()), ": ", FromAbsl(rendezvous.status().message()));
    }
    if (rendezvous->rank != rank || rendezvous->size != size) return "wrong rank or size";
    const GroupMember self = DescribeSelf(rank);
    MemberWatch watch(*SystemSeams().proc, self, "world");
    const absl::StatusOr<Membership> members =
        ExchangeMembership(*rendezvous->store, "world", rank, size, self, In(seconds), watch);
    if (!members.ok()) return std::string(members.status().message());
    if (members->members.size() != static_cast<size_t>(size)) return "wrong number of members";
  }
  return "";
}

std::vector<RankEnd> PmiJob::Run() const {
  std::vector<PmiPair> pairs(static_cast<size_t>(size));
  std::vector<RankEnd> ends = RunForkedRanks(size + 1, 60, [&](int process) -> std::string {
    if (process == size) {
      for (PmiPair& pair : pairs)
        pair.rank.Reset();
      PmiLauncher launcher(pairs);
      if (prepare) prepare(launcher);
      launcher.Serve();
      return "";
    }
    if (process == absent_rank) {
      // As a rank that computes before it comes to weft: its end of the pair stays open.
      poll(nullptr, 0, static_cast<int>((seconds + 2) * 1e3));
      return "";
    }
    for (PmiPair& pair : pairs) {
      pair.launcher.Reset();
      if (&pair != &pairs[process]) pair.rank.Reset();
    }
    SetPmi(process, size, pairs[process].rank.get());
    if (set_environment) set_environment(process);
    return RunRank(process);
  });
  ends.pop_back();
  return ends;
}

void ExpectAllFine(const std::vector<RankEnd>& ends) {
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << rank;
}

// As if rank 0 were on another machine: the others have no use for its unix socket.
std::string OnAnotherMachine(const std::string& value) {
  const std::string bytes = absl::HexStringToBytes(value);
  weft_unique_id_t encoded;
  if (bytes.size() != sizeof(encoded.internal)) return "unexpected";
  bytes.copy(encoded.internal, sizeof(encoded.internal));
  absl::StatusOr<UniqueId> id = DecodeUniqueId(encoded);
  if (!id.ok()) return "unexpected";
  id->boot_hash ^= 1;
  encoded = *EncodeUniqueId(*id);
  return absl::BytesToHexString(absl::string_view(encoded.internal, sizeof(encoded.internal)));
}

TEST(PmiRendezvous, NeedsNeitherMasterAddressNorSecret) {
  for (const int size : {2, 3, 8}) {
    ExpectAllFine(PmiJob{.size = size}.Run());
  }
}

TEST(PmiRendezvous, OneConversationDoesForSeveralGroups) {
  ExpectAllFine(PmiJob{.size = 3, .rounds = 5}.Run());
}

TEST(PmiRendezvous, RanksOfOtherMachinesComeOverTcp) {
  PmiJob job{.size = 3, .rounds = 3};
  job.prepare = [](PmiLauncher& launcher) {
    launcher.change = OnAnotherMachine;
  };
  // Rank 0 alone is told where to listen; the others hear it from rank 0.
  job.set_environment = [](int rank) {
    if (rank == 0) setenv("MASTER_ADDR", "127.0.0.1", 1);
  };
  ExpectAllFine(job.Run());
}

TEST(PmiRendezvous, TheLauncherThatEndsIsNamedOnEveryRank) {
  for (const char* last_line : {"cmd=init", "cmd=get_my_kvsname", "cmd=put", "cmd=barrier_in"}) {
    SCOPED_TRACE(last_line);
    PmiJob job{.size = 3};
    job.prepare = [&](PmiLauncher& launcher) {
      launcher.leave_at = last_line;
    };
    const int64_t start_ns = MonotonicNs();
    const std::vector<RankEnd> ends = job.Run();
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_THAT(ends[rank].Problem(), AllOf(HasSubstr(StrCat("rank ", rank, " could not agree")),
                                              HasSubstr("PMI_FD="), HasSubstr("MASTER_ADDR"),
                                              ::testing::ContainsRegex("launcher closed|PMI_FD:")));
    }
    // Long before the deadline.
    EXPECT_LT(MonotonicNs() - start_ns, int64_t{20} * 1'000'000'000);
  }
}

TEST(PmiRendezvous, AMissingRankEndsTheWaitAtTheDeadline) {
  PmiJob job{.size = 3, .seconds = 1, .absent_rank = 2};
  job.prepare = [](PmiLauncher& launcher) {
    launcher.idle_ms = 3'000;
  };
  const std::vector<RankEnd> ends = job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(ends[rank].Problem(),
                AllOf(HasSubstr(StrCat(WEFT_TIMEOUT, ": rank ", rank)),
                      HasSubstr("the deadline passed; a rank of the job may not have reached")));
  }
}

TEST(PmiRendezvous, AnAddressThatRankZeroDoesNotHaveIsToldToAll) {
  PmiJob job{.size = 2};
  job.set_environment = [](int rank) {
    // Reserved for documentation: no machine has it.
    if (rank == 0) setenv("MASTER_ADDR", "192.0.2.1", 1);
  };
  const int64_t start_ns = MonotonicNs();
  const std::vector<RankEnd> ends = job.Run();
  EXPECT_LT(MonotonicNs() - start_ns, int64_t{20} * 1'000'000'000);  // long before the deadline
  EXPECT_THAT(ends[0].Problem(), HasSubstr("192.0.2.1"));
  EXPECT_THAT(ends[1].Problem(), HasSubstr("rank 0 could not open the store"));
}

TEST(PmiRendezvous, AnotherValueThanAnIdIsRefused) {
  for (const char* value : {"hello", "00", "failed"}) {
    PmiJob job{.size = 2};
    job.prepare = [&](PmiLauncher& launcher) {
      launcher.change = [&](const std::string&) {
        return std::string(value);
      };
    };
    for (const RankEnd& end : job.Run())
      EXPECT_THAT(end.Problem(), HasSubstr("through PMI-1"));
  }
}

TEST(PmiRendezvous, AnotherSecretIsRefused) {
  char path[] = "/tmp/weft-secret-XXXXXX";
  const UniqueFd file(mkstemp(path));
  const std::string secret(40, 's');
  ASSERT_EQ(write(file.get(), secret.data(), secret.size()), static_cast<ssize_t>(secret.size()));
  PmiJob job{.size = 2};
  job.seconds = 2;
  job.set_environment = [&](int rank) {
    if (rank == 0) setenv("WEFT_JOB_SECRET_FILE", path, 1);
  };
  const std::vector<RankEnd> ends = job.Run();
  EXPECT_THAT(ends[1].Problem(), HasSubstr("secret"));
  // With the same file on both they meet.
  job.seconds = 30;
  job.set_environment = [&](int) {
    setenv("WEFT_JOB_SECRET_FILE", path, 1);
  };
  ExpectAllFine(job.Run());
  unlink(path);
}

}  // namespace
}  // namespace weft::test::pmi_rendezvous_test
