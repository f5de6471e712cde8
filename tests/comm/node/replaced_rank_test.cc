// A rank whose process becomes another program (exec) while peers are about to read its memory, or wait for it: they say so, and
// do not take what that program has at the same address for the rank's.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "fmt/format.h"
#include "message_case.h"
#include "single_copy_calls.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

constexpr char kRole[] = "WEFT_TEST_SUCCESSOR";
constexpr size_t kBytes = size_t{4} << 20;
constexpr char kOfTheRank = 0x11;
constexpr char kOfTheSuccessor = 0x22;
constexpr int kReaders = 2;

// Where user space ends, in all builds: nothing else is mapped there.
void* const kPlace = reinterpret_cast<void*>(0x7e90'0000'0000);

void* MapAtPlace(char content) {
  void* const memory = mmap(kPlace, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != kPlace) return nullptr;
  std::memset(memory, content, kBytes);
  return memory;
}

bool TakeByte(int pipe) {
  pollfd item{pipe, POLLIN, 0};
  char byte = 0;
  return poll(&item, 1, 20'000) == 1 && read(pipe, &byte, 1) == 1;
}

void GiveBytes(int pipe, int count) {
  for (int i = 0; i < count; ++i)
    (void)!write(pipe, "", 1);
}

// Before main(): what the rank becomes. It has other bytes where the rank's were, says so, and waits.
const bool kIsRank = [] {
  const char* const role = std::getenv(kRole);
  if (role == nullptr) return true;
  int ready = -1, over = -1;
  if (std::sscanf(role, "%d,%d", &ready, &over) != 2) _exit(90);
  if (MapAtPlace(kOfTheSuccessor) == nullptr) _exit(91);
  GiveBytes(ready, kReaders);
  for (int i = 0; i < kReaders; ++i)
    TakeByte(over);
  _exit(0);
}();

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }

  int ends[2] = {-1, -1};
};

Collective BroadcastOf(void* memory) {
  Collective call{.kind = OpKind::kBroadcast,
                  .dtype = WEFT_UINT8,
                  .count = kBytes,
                  .algorithm = Protocol::kSingleCopy};
  call.in = call.out = memory;
  return call;
}

TEST(ReplacedRank, IsNotReadByBroadcasts) {
  ASSERT_TRUE(kIsRank);
  const TemporaryDirectory directory;
  const Pipe replace, ready, over;
  const auto ends = RunForkedRanks(1 + kReaders, 60, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    auto group =
        MakeNodeGroup(&store, rank, 1 + kReaders, {.name = "r", .timeout_ns = 30'000'000'000});
    if (!group.ok()) return Text(group.status());
    if (rank == 0) {
      void* const memory = MapAtPlace(kOfTheRank);
      if (memory == nullptr) return "the place is taken";
      // Ends this thread too.
      std::thread successor([&] {
        if (!TakeByte(replace.ends[0])) _exit(92);
        setenv(kRole, fmt::format("{},{}", ready.ends[1], over.ends[0]).c_str(), 1);
        execl("/proc/self/exe", "successor", nullptr);
        _exit(93);
      });
      const absl::Status status = (*group)->Run(BroadcastOf(memory));
      successor.join();
      return "rank 0 was not replaced: " + Text(status);
    }
    std::string problem = [&]() -> std::string {
      bool replaced = true;
      SingleCopyCalls::Get().Reset();
      SingleCopyCalls::Get().before = [&](int call) {
        if (call > 0) return;
        if (rank == 1) GiveBytes(replace.ends[1], 1);
        replaced = TakeByte(ready.ends[0]);
      };
      std::string out(kBytes, 0);
      const absl::Status status = (*group)->Run(BroadcastOf(out.data()));
      SingleCopyCalls::Get().Reset();
      if (!replaced) return "rank 0 did not become another program: " + Text(status);
      if (out.find(kOfTheSuccessor) != std::string::npos && status.ok()) {
        return "got another program's bytes";
      }
      if (FieldsOf(status).rank != 0) return "blames: " + Text(status);
      return Expect(status, WEFT_PEER_LOST, {"rank 0 (host ", "runs another program by now"});
    }();
    (*group)->Abort("the test is over");
    GiveBytes(over.ends[1], 1);
    return problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// What the others wait in for a rank that never comes.
enum class Wait { kAllReduce, kLargeAllReduce, kStartedAllReduce, kRecv, kStartedRecv, kAnySource };

struct WaitCase {
  const char* name;
  Wait wait;
};

absl::Status Await(absl::StatusOr<WorkRef> work) {
  return work.ok() ? (*work)->Wait(0) : work.status();
}

absl::Status WaitForRank0(ProcessGroup& group, Wait wait) {
  std::vector<float> in(200'000, 1), out(200'000);
  Collective reduce{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1};
  reduce.in = in.data();
  reduce.out = out.data();
  const Message recv = RecvOf(out.data(), 64, wait == Wait::kAnySource ? WEFT_ANY_SOURCE : 0, 5);
  switch (wait) {
    case Wait::kLargeAllReduce:
      reduce.count = in.size();
      return group.Run(reduce);
    case Wait::kAllReduce:
      return group.Run(reduce);
    case Wait::kStartedAllReduce:
      return Await(group.Start(reduce));
    case Wait::kStartedRecv:
      return Await(group.Start(recv));
    case Wait::kRecv:
    case Wait::kAnySource:
      break;
  }
  return group.Run(recv);
}

class ReplacedRankInAWait : public testing::TestWithParam<WaitCase> {
 protected:
  // Rank 0 becomes another program, which lives until all others have returned.
  static void Run(int64_t timeout_ns,
                  const std::function<std::string(int rank, ProcessGroup& group)>& others) {
    ASSERT_TRUE(kIsRank);
    const TemporaryDirectory directory;
    const Pipe ready, over;
    const auto ends = RunForkedRanks(1 + kReaders, 60, [&](int rank) -> std::string {
      DirectoryStore store(directory.path());
      auto group =
          MakeNodeGroup(&store, rank, 1 + kReaders, {.name = "r", .timeout_ns = timeout_ns});
      if (!group.ok()) return Text(group.status());
      if (const absl::Status met = (*group)->Run({.kind = OpKind::kBarrier}); !met.ok())
        return Text(met);
      if (rank == 0) {
        setenv(kRole, fmt::format("{},{}", ready.ends[1], over.ends[0]).c_str(), 1);
        execl("/proc/self/exe", "successor", nullptr);
        return "rank 0 could not become another program";
      }
      std::string problem = others(rank, **group);
      SingleCopyCalls::Get().Reset();
      if (!TakeByte(ready.ends[0])) problem += " (rank 0 did not become another program)";
      (*group)->Abort("the test is over");
      GiveBytes(over.ends[1], 1);
      return problem;
    });
    for (size_t rank = 0; rank < ends.size(); ++rank)
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
  }
};

TEST_P(ReplacedRankInAWait, IsNoticedWithoutADeadline) {
  Run(50'000'000'000, [](int, ProcessGroup& group) -> std::string {
    const int64_t begun_ns = MonotonicNs();
    const absl::Status status = WaitForRank0(group, GetParam().wait);
    if (MonotonicNs() - begun_ns > 10'000'000'000) return "late: " + Text(status);
    if (FieldsOf(status).rank != 0) return "blames: " + Text(status);
    return Expect(status, WEFT_PEER_LOST, {"rank 0 (host ", "runs another program by now (exec)"});
  });
}

// Who may not be read may be the program that it was: it is late, no more.
TEST_P(ReplacedRankInAWait, IsLateWhereItMayNotBeRead) {
  Run(700'000'000, [](int, ProcessGroup& group) -> std::string {
    SingleCopyCalls::Get().forbidden = true;
    const absl::Status status = WaitForRank0(group, GetParam().wait);
    const bool names = GetParam().wait != Wait::kAnySource;
    if (names && FieldsOf(status).rank != 0) return "blames: " + Text(status);
    return Expect(status, WEFT_TIMEOUT, {"within 0.7 s"});
  });
}

INSTANTIATE_TEST_SUITE_P(Waits, ReplacedRankInAWait,
                         testing::Values(WaitCase{"AllReduce", Wait::kAllReduce},
                                         WaitCase{"LargeAllReduce", Wait::kLargeAllReduce},
                                         WaitCase{"StartedAllReduce", Wait::kStartedAllReduce},
                                         WaitCase{"Recv", Wait::kRecv},
                                         WaitCase{"StartedRecv", Wait::kStartedRecv},
                                         WaitCase{"AnySource", Wait::kAnySource}),
                         [](const auto& wait) { return std::string(wait.param.name); });

// Rank 1 lets go of all groups but not of its heap, and makes another one: rank 0 has known its heap all the time, and finds
// its id where it was.
TEST(LateRank, IsNotTakenForAnotherProgramWhenItMadeItsGroupsAnew) {
  ASSERT_TRUE(kIsRank);
  const TemporaryDirectory first_directory, second_directory;
  const Pipe late;
  const auto ends = RunForkedRanks(2, 60, [&](int rank) -> std::string {
    void* const block = ProcessHeap().Allocate(4096).value();
    DirectoryStore store(first_directory.path());
    auto first = MakeNodeGroup(&store, rank, 2, {.name = "first", .timeout_ns = 30'000'000'000});
    if (!first.ok()) return Text(first.status());
    std::vector<std::vector<char>> others;  // where the group was
    if (rank == 1) {
      (*first)->Close();
      first->reset();
      for (size_t bytes = 16; bytes < 4096; bytes += 16)
        others.emplace_back(bytes, '\x5a');
    }
    DirectoryStore again(second_directory.path());
    auto second = MakeNodeGroup(&again, rank, 2, {.name = "second", .timeout_ns = 30'000'000'000});
    if (!second.ok()) return Text(second.status());
    if (rank == 1) {
      if (!TakeByte(late.ends[0])) return "rank 0 did not wait";
    } else {
      // It has asked several times when the byte comes.
      if (fork() == 0) {
        poll(nullptr, 0, 500);
        GiveBytes(late.ends[1], 1);
        _exit(0);
      }
    }
    const absl::Status status = (*second)->Run({.kind = OpKind::kBarrier});
    (*second)->Close();
    if (rank == 0) (*first)->Close();
    if (!ProcessHeap().Free(block).ok()) return "the block was not freed";
    return status.ok() ? "" : Text(status);
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

}  // namespace
}  // namespace weft::test
