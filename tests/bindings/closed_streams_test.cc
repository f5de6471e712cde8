// Programs that have closed standard input, output or error, as daemons do, and print all the same: what they print goes into
// nobody's memory and into no connection.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::closed_streams_test {
namespace {

constexpr int kSize = 4;
constexpr int kStreams = 3;
constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kCount = 300;

// Prints to the closed streams, without end, from a thread of its own.
class Printing {
 public:
  explicit Printing(unsigned closed) : thread_([this, closed] { Run(closed); }) {}

  ~Printing() {
    ended_ = true;
    thread_.join();
  }

 private:
  void Run(unsigned closed) {
    // UBSan looks at memory through pipes of its own, which may be what is behind a standard number for a moment.
    signal(SIGPIPE, SIG_IGN);
    constexpr char kLine[] = "step 412 loss 2.5\n";
    while (!ended_) {
      for (int fd = 0; fd < kStreams; ++fd)
        // The kernel's call itself: to TSan, a write() beside the open() of the same descriptor is a data race, and that is the test.
        if ((closed >> fd & 1) != 0) (void)syscall(SYS_write, fd, kLine, sizeof(kLine) - 1);
      std::this_thread::yield();
    }
  }

  std::atomic<bool> ended_{false};
  std::thread thread_;
};

std::string MakeGroup(int ends[2], int rank, weft_group_t* group) {
  weft_unique_id_t id;
  if (rank == 0) {
    if (weft_unique_id_create(&id) != WEFT_SUCCESS) return weft_last_error();
    for (int other = 1; other < kSize; ++other) {
      if (write(ends[1], &id, sizeof(id)) != sizeof(id)) return "the pipe";
    }
  } else if (read(ends[0], &id, sizeof(id)) != sizeof(id)) {
    return "the pipe";
  }
  const weft_group_config_t config = ConfigNamed("daemons");
  const weft_result_t made = weft_group_create_from_id(&id, kSize, rank, &config, group);
  return made == WEFT_SUCCESS ? "" : weft_last_error();
}

// Sums in the block, which must be zero elsewhere.
std::string UseBlock(weft_group_t group, int rank, int* block) {
  for (int step = 0; step < 20; ++step) {
    for (size_t i = 0; i < kCount; ++i)
      block[i] = step + rank + static_cast<int>(i);
    if (weft_all_reduce(block, block, kCount, WEFT_INT32, WEFT_SUM, group, nullptr, nullptr) !=
        WEFT_SUCCESS) {
      return weft_last_error();
    }
    for (size_t i = 0; i < kCount; ++i) {
      const int expected = kSize * (step + static_cast<int>(i)) + kSize * (kSize - 1) / 2;
      if (block[i] != expected) return "step " + std::to_string(step) + ": another sum";
    }
  }
  for (size_t i = kCount; i < kBlockBytes / sizeof(int); ++i)
    if (block[i] != 0) return "somebody wrote into the block";
  return "";
}

std::string RunRank(int ends[2], int rank, unsigned closed) {
  for (int fd = 0; fd < kStreams; ++fd)
    if ((closed >> fd & 1) != 0) close(fd);
  const Printing printing(closed);
  void* memory = nullptr;
  if (weft_mem_alloc(kBlockBytes, 0, &memory) != WEFT_SUCCESS) return weft_last_error();
  std::memset(memory, 0, kBlockBytes);
  weft_group_t group = nullptr;
  weft_group_t half = nullptr;
  std::string problem = MakeGroup(ends, rank, &group);
  if (problem.empty()) problem = UseBlock(group, rank, static_cast<int*>(memory));
  if (problem.empty() && weft_group_split(group, rank % 2, rank, nullptr, &half) != WEFT_SUCCESS)
    problem = weft_last_error();
  if (problem.empty() && weft_barrier(half, nullptr, nullptr) != WEFT_SUCCESS)
    problem = weft_last_error();
  if (!problem.empty()) return "rank " + std::to_string(rank) + ": " + problem;
  for (int fd = 0; fd < kStreams; ++fd) {
    struct stat found = {};
    struct stat null = {};
    if ((closed >> fd & 1) == 0 || fstat(fd, &found) != 0) continue;
    if (stat("/dev/null", &null) != 0 || found.st_rdev != null.st_rdev)
      return "descriptor " + std::to_string(fd) + " is one of weft's";
  }
  weft_group_destroy(half);
  weft_group_destroy(group);
  weft_mem_free(memory);
  return "";
}

// A bit of `closed` is a stream.
void RunRanks(const char* fake_nodes, const std::vector<unsigned>& all_closed) {
  for (const unsigned closed : all_closed) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::vector<RankEnd> ranks = RunForkedRanks(kSize, 60, [&](int rank) {
      if (fake_nodes != nullptr) setenv("WEFT_FAKE_NODES", fake_nodes, 1);
      return RunRank(ends, rank, closed);
    });
    for (const RankEnd& end : ranks)
      EXPECT_EQ(end.Problem(), "") << "closed: " << closed;
    close(ends[0]);
    close(ends[1]);
  }
}

TEST(ClosedStreams, OnOneNode) {
  RunRanks(nullptr, {1, 2, 3, 4, 5, 6, 7});
}

TEST(ClosedStreams, OverNodes) {
  RunRanks("2", {1, 2, 7});
}

}  // namespace
}  // namespace weft::test::closed_streams_test
