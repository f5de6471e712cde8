// A death needs proof. Ranks that have done their part may end while others still finish; ranks of other pid
// namespaces, whose numbers are somebody else's here, live; and whoever has ended is found, with pidfds and without.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "collective_case.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "message_case.h"
#include "pid_namespace.h"
#include "process_looks.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

constexpr double kLimitS = 60;

// A pipe that processes have in common: bytes are leave to go on.
class Gate {
 public:
  Gate() { EXPECT_EQ(pipe(ends_), 0); }

  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  ~Gate() {
    close(ends_[0]);
    close(ends_[1]);
  }

  void Open(int count) const {
    const std::vector<char> bytes(static_cast<size_t>(count));
    (void)!write(ends_[1], bytes.data(), bytes.size());
  }

  // Takes `count` bytes; false if they do not come within 20 s.
  bool Pass(int count) const {
    for (char byte = 0; count > 0; --count) {
      pollfd item{ends_[0], POLLIN, 0};
      int ready = 0;
      while ((ready = poll(&item, 1, 20'000)) < 0 && errno == EINTR) {
      }
      if (ready != 1 || read(ends_[0], &byte, 1) != 1) return false;
    }
    return true;
  }

 private:
  int ends_[2] = {-1, -1};
};

absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeGroup(const TemporaryDirectory& directory,
                                                        int rank, int size) {
  DirectoryStore store(directory.path());
  return MakeNodeGroup(&store, rank, size, {.name = "e", .timeout_ns = 40'000'000'000});
}

absl::Status GatherPids(ProcessGroup& group, std::vector<int32_t>* pids) {
  const int32_t self = getpid();
  pids->resize(static_cast<size_t>(group.size()));
  Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
  gather.in = &self;
  gather.out = pids->data();
  return group.Run(gather);
}

void ExpectNoProblems(const std::vector<RankEnd>& ends) {
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// Rank 0 waits in the last barrier, and looks at every peer in turn. Between its look at what the last rank has published
// and at that one's process, all others come, finish and end: nothing has gone wrong.
class LastBarrier : public testing::TestWithParam<int> {};

TEST_P(LastBarrier, MayBeFollowedByTheEndOfRanksThatOthersHaveNotSeen) {
  const int size = GetParam();
  const TemporaryDirectory directory;
  const Gate others_may_go;
  ExpectNoProblems(RunForkedRanks(size, kLimitS, [&](int rank) -> std::string {
    auto group = MakeGroup(directory, rank, size);
    if (!group.ok()) return Text(group.status());
    std::vector<int32_t> pids;
    if (const absl::Status status = GatherPids(**group, &pids); !status.ok()) return Text(status);
    if (rank != 0) {
      if (!others_may_go.Pass(1)) return "rank 0 did not look";
      const absl::Status status = (*group)->Run({.kind = OpKind::kBarrier});
      if (!status.ok()) return Text(status);
      _exit(0);  // without leaving the group
    }
    bool raced = false;
    bool ended = false;
    ProcessLooks::Get().before = [&](int descriptor) {
      if (raced || PidOf(descriptor) != pids.back()) return;
      raced = true;
      others_may_go.Open(size - 1);
      ended = AwaitEnd(descriptor);
    };
    const absl::Status status = (*group)->Run({.kind = OpKind::kBarrier});
    ProcessLooks::Get().before = nullptr;
    if (!raced || !ended) return "the race did not take place: " + Text(status);
    (*group)->Close();
    return status.ok() ? "" : Text(status);
  }));
}

INSTANTIATE_TEST_SUITE_P(RankSet, LastBarrier, testing::Values(2, 3, 5, 8));

// Where a rank runs.
enum class Place { kHere, kNamespace, kContainer };

std::string RunAt(Place place, const std::function<std::string()>& body) {
  switch (place) {
    case Place::kHere:
      return body();
    case Place::kNamespace:
      return InPidNamespace(OwnProc::kNo, body);
    case Place::kContainer:
      return InPidNamespace(OwnProc::kYes, body);
  }
  return "no place";
}

struct Job {
  const char* name;
  std::vector<Place> places;  // by rank
  bool no_pidfds = false;
};

std::vector<Job> Jobs() {
  constexpr Place kHere = Place::kHere, kNamespace = Place::kNamespace,
                  kContainer = Place::kContainer;
  return {{"Here", {kHere, kHere, kHere}},
          {"EachInANamespace", {kNamespace, kNamespace, kNamespace}},
          {"EachInAContainer", {kContainer, kContainer, kContainer}},
          {"OthersInNamespaces", {kHere, kNamespace, kNamespace}},
          {"LeaderInAContainer", {kContainer, kHere, kHere}},
          {"Mixed", {kHere, kContainer, kNamespace, kHere}},
          {"HereWithoutPidfds", {kHere, kHere, kHere}, true},
          {"MixedWithoutPidfds", {kHere, kContainer, kNamespace, kHere}, true}};
}

class RanksAnywhere : public testing::TestWithParam<Job> {
 protected:
  void SetUp() override {
    for (const Place place : GetParam().places) {
      const OwnProc own_proc = place == Place::kContainer ? OwnProc::kYes : OwnProc::kNo;
      if (place == Place::kHere) continue;
      const std::string why = WhyNoPidNamespace(own_proc);
      if (!why.empty()) GTEST_SKIP() << "no pid namespaces here: " << why;
    }
    ProcessLooks::Get().no_pidfds = GetParam().no_pidfds;
  }

  void TearDown() override { ProcessLooks::Get().no_pidfds = false; }

  static int size() { return static_cast<int>(GetParam().places.size()); }

  static void Run(const std::function<std::string(int rank, ProcessGroup& group)>& body) {
    const TemporaryDirectory directory;
    ExpectNoProblems(RunForkedRanks(size(), kLimitS, [&](int rank) -> std::string {
      return RunAt(GetParam().places[static_cast<size_t>(rank)], [&]() -> std::string {
        auto group = MakeGroup(directory, rank, size());
        if (!group.ok()) return Text(group.status());
        const std::string problem = body(rank, **group);
        (*group)->Close();
        return problem;
      });
    }));
  }
};

// Rank 0 comes when all others have looked at it several times, and found it alive.
TEST_P(RanksAnywhere, LiveAndAreWaitedFor) {
  const Gate looked;
  Run([&](int rank, ProcessGroup& group) -> std::string {
    for (const size_t count : {1UL, 1000UL, 50'000UL}) {
      if (rank == 0) {
        if (!looked.Pass(3 * (size() - 1))) return "a rank did not look at rank 0";
      } else {
        int looks = 0;
        ProcessLooks::Get().before = [&looked, looks](int) mutable {
          if (looks++ < 3) looked.Open(1);
        };
      }
      const CollectiveCase test{.kind = OpKind::kAllReduce, .count = count, .seed = count};
      std::string problem = RunCase(group, test, LocalChoice{});
      ProcessLooks::Get().before = nullptr;
      if (!problem.empty()) return problem;
    }
    return "";
  });
}

// The last rank ends, or is killed, while the others wait for it: they name it, and how it ended where that can be known.
TEST_P(RanksAnywhere, AreNamedWhenTheyHaveEnded) {
  const Gate looked;  // else the group may have ended before a rank is in the barrier
  const Gate seen;
  Run([&](int rank, ProcessGroup& group) -> std::string {
    const int victim = size() - 1;
    std::vector<int32_t> pids;
    if (const absl::Status status = GatherPids(group, &pids); !status.ok()) return Text(status);
    if (rank == victim) {
      if (!looked.Pass(victim)) return "a rank did not look at the last one";
      if (GetParam().places[static_cast<size_t>(rank)] != Place::kHere) SayKillMe();
      if (fork() == 0) _exit(seen.Pass(1) ? 0 : 1);  // lives on, and does not stand for its parent
      _exit(0);
    }
    const int64_t start_ns = MonotonicNs();
    ProcessLooks::Get().before = [&looked, first = true](int) mutable {
      if (std::exchange(first, false)) looked.Open(1);
    };
    const absl::Status status = group.Run({.kind = OpKind::kBarrier});
    ProcessLooks::Get().before = nullptr;
    const ErrorFields fields = FieldsOf(status);
    if (ResultOf(status) != WEFT_PEER_LOST || fields.rank != victim) return "got: " + Text(status);
    if (fields.pid != pids[static_cast<size_t>(victim)]) return "another pid: " + Text(status);
    if (fields.operation != "barrier" || fields.sequence < 1) return "in which? " + Text(status);
    if (MonotonicNs() - start_ns > 10'000'000'000) return "late";
    const bool all_here = std::all_of(GetParam().places.begin(), GetParam().places.end(),
                                      [](Place place) { return place == Place::kHere; });
    seen.Open(1);
    if (all_here && (fields.signal != 0 || fields.exit_code != 0)) return "how? " + Text(status);
    return "";
  });
}

// Who does not come lives, and is said to.
TEST_P(RanksAnywhere, AreNotSaidToBeGoneWhenTheyAreLate) {
  const Gate given_up;
  Run([&](int rank, ProcessGroup& group) -> std::string {
    if (rank != 0) return given_up.Pass(1) ? "" : "rank 0 did not give up";
    Collective barrier{.kind = OpKind::kBarrier};
    barrier.timeout_ns = 200'000'000;
    const absl::Status status = group.Run(barrier);
    given_up.Open(size() - 1);
    if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
    const bool alive = Text(status).find("process ") != std::string::npos &&
                       Text(status).find("process gone") == std::string::npos &&
                       Text(status).find("process ended") == std::string::npos;
    return alive ? "" : Text(status);
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, RanksAnywhere, testing::ValuesIn(Jobs()),
                         [](const auto& job) { return std::string(job.param.name); });

}  // namespace
}  // namespace weft::test
