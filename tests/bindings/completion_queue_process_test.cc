// Completion queues of ranks that are processes: each has one thread that waits, and one that starts. A file of its own, as
// ranks are forked before their parent has groups. Also run with WEFT_PROGRESS=caller.
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test {
namespace {

constexpr unsigned kSeconds = 60;
constexpr int64_t kTimeoutNs = 30'000'000'000;

#define RETURN_UNLESS(condition)                                                     \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, weft_last_error()); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

// Runs `body(rank)` in `size` children, each with a deadline; expects 0 from all but `killed`.
void InChildren(int size, const std::function<int(int)>& body, int killed = -1) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kSeconds);
      _exit(body(rank));
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<size_t>(rank)], &status, 0),
              children[static_cast<size_t>(rank)]);
    if (rank == killed) continue;
    EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << ": status " << status;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "rank " << rank;
  }
}

// What the ranks of a job hand to each other before they have a group. Made by their parent, which has one thread and stays so:
// ThreadSanitizer knows no threads in children of others.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_), 0); }

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  ~Pipe() {
    for (const int end : ends_)
      close(end);
  }

  template <typename T>
  bool Write(const T& value) const {
    return write(ends_[1], &value, sizeof(value)) == sizeof(value);
  }

  template <typename T>
  bool Read(T* value) const {
    return read(ends_[0], value, sizeof(*value)) == sizeof(*value);
  }

 private:
  int ends_[2] = {};
};

// The group of `size` processes; rank 0 makes its id.
int JoinGroup(const char* name, const Pipe& ids, int size, int rank, weft_group_t* group) {
  weft_unique_id_t id;
  if (rank == 0) {
    RETURN_UNLESS(weft_unique_id_create(&id) == WEFT_SUCCESS);
    for (int other = 1; other < size; ++other)
      RETURN_UNLESS(ids.Write(id));
  } else {
    RETURN_UNLESS(ids.Read(&id));
  }
  const weft_group_config_t config = ConfigNamed(name, kTimeoutNs);
  RETURN_UNLESS(weft_group_create_from_id(&id, size, rank, &config, group) == WEFT_SUCCESS);
  return 0;
}

// Takes `total` completions; 0 if all ended well.
int TakeAll(weft_completion_queue_t queue, size_t total) {
  for (size_t taken = 0; taken < total;) {
    weft_completion_t ended[16];
    size_t count = 0;
    RETURN_UNLESS(weft_completion_queue_wait(queue, kTimeoutNs, ended, 16, &count) == WEFT_SUCCESS);
    for (size_t i = 0; i < count; ++i)
      RETURN_UNLESS(ended[i].result == WEFT_SUCCESS);
    taken += count;
  }
  return 0;
}

int SumThroughAQueue(const Pipe& ids, int size, int rank) {
  constexpr size_t kRounds = 100;
  weft_group_t group = nullptr;
  weft_completion_queue_t queue = nullptr;
  RETURN_UNLESS(JoinGroup("processes", ids, size, rank, &group) == 0);
  RETURN_UNLESS(weft_completion_queue_create(nullptr, &queue) == WEFT_SUCCESS);
  int failed = 0;
  std::thread consumer([&] { failed = TakeAll(queue, kRounds); });
  std::vector<std::vector<int>> sums(kRounds);
  for (size_t round = 0; round < kRounds; ++round) {
    sums[round].assign(round % 10 == 0 ? 100'003 : round, rank + 1);
    weft_work_t work = nullptr;
    RETURN_UNLESS(weft_all_reduce(sums[round].data(), sums[round].data(), sums[round].size(),
                                  WEFT_INT32, WEFT_SUM, group, nullptr, &work) == WEFT_SUCCESS);
    RETURN_UNLESS(weft_completion_queue_add(queue, work, round) == WEFT_SUCCESS);
    RETURN_UNLESS(weft_work_free(work) == WEFT_SUCCESS);
  }
  consumer.join();
  for (const auto& sum : sums)
    RETURN_UNLESS(sum == std::vector<int>(sum.size(), size * (size + 1) / 2));
  RETURN_UNLESS(weft_completion_queue_destroy(queue) == WEFT_SUCCESS);
  RETURN_UNLESS(weft_group_destroy(group) == WEFT_SUCCESS);
  return failed;
}

TEST(CompletionQueueOfProcesses, TellsAllEnds) {
  for (const int size : {1, 2, 4}) {
    const Pipe ids;
    InChildren(size, [&](int rank) { return SumThroughAQueue(ids, size, rank); });
  }
}

// Rank 2 is killed once the other two have started a barrier, which they say in the pipe `started`.
int SurviveRankTwo(const Pipe& ids, int rank, const Pipe& started) {
  weft_group_t group = nullptr;
  weft_completion_queue_t queue = nullptr;
  RETURN_UNLESS(JoinGroup("bereaved", ids, 3, rank, &group) == 0);
  char byte = 0;
  if (rank == 2) {
    for (int other = 0; other < 2; ++other)
      RETURN_UNLESS(started.Read(&byte));
    raise(SIGKILL);
  }
  RETURN_UNLESS(weft_completion_queue_create(nullptr, &queue) == WEFT_SUCCESS);
  weft_work_t work = nullptr;
  RETURN_UNLESS(weft_barrier(group, nullptr, &work) == WEFT_SUCCESS);
  RETURN_UNLESS(started.Write(byte));
  RETURN_UNLESS(weft_completion_queue_add(queue, work, 9) == WEFT_SUCCESS);
  weft_completion_t ended;
  size_t count = 0;
  RETURN_UNLESS(weft_completion_queue_wait(queue, 0, &ended, 1, &count) == WEFT_SUCCESS);
  RETURN_UNLESS(count == 1 && ended.token == 9);
  RETURN_UNLESS(ended.result == WEFT_PEER_LOST);
  RETURN_UNLESS(std::string(ended.message).find("rank 2") != std::string::npos);
  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  RETURN_UNLESS(weft_work_error_info(work, &info) == WEFT_SUCCESS);
  RETURN_UNLESS(info.result == WEFT_PEER_LOST && info.rank == 2 && info.signal == SIGKILL);
  RETURN_UNLESS(weft_work_free(work) == WEFT_SUCCESS);
  RETURN_UNLESS(weft_completion_queue_destroy(queue) == WEFT_SUCCESS);
  RETURN_UNLESS(weft_group_destroy(group) == WEFT_SUCCESS);
  return 0;
}

TEST(CompletionQueueOfProcesses, TellsThatARankWasKilled) {
  const Pipe ids;
  const Pipe started;
  InChildren(
      3, [&](int rank) { return SurviveRankTwo(ids, rank, started); }, 2);
}

// Only the ends of its own works are told in a child: a queue is the process's that made it.
TEST(CompletionQueueOfProcesses, OfTheParentIsRefusedInAChild) {
  weft_completion_queue_t queue = nullptr;
  ASSERT_EQ(weft_completion_queue_create(nullptr, &queue), WEFT_SUCCESS);
  InChildren(1, [&](int) {
    weft_completion_t ended;
    size_t count = 0;
    RETURN_UNLESS(weft_completion_queue_wait(queue, 0, &ended, 1, &count) == WEFT_FORKED);
    RETURN_UNLESS(weft_completion_queue_destroy(queue) == WEFT_FORKED);
    return SumThroughAQueue(Pipe(), 1, 0);
  });
  EXPECT_EQ(weft_completion_queue_destroy(queue), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test
