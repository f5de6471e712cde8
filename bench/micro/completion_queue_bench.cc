// What the end of an operation costs that is told by a completion queue, beside weft_work_wait and a callback.
//
//   build/release/bench/completion_queue_bench [ROUNDS]     // 20000; prints JSON
//
// Two ranks, each a process, do all_reduces of 8 B and 256 KiB in private memory, in five ways that differ in how this
// rank learns of the end; rank 1 blocks in all of them. Each way has its turn in each of ten interleaved parts; of the
// medians of these parts the median is printed, in microseconds per operation.
//
//   blocking   no work
//   wait       start, weft_work_wait, free
//   queue      start, add, free, weft_completion_queue_wait on the same thread
//   thread     start, add, free; a second thread waits for the queue and tells the first one
//   callback   start, weft_work_on_complete, free; the callback tells this thread
//
// In the last two this thread sleeps on a condition variable meanwhile, as the caller of a future does.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weft/weft.h"

#include "bench/micro/timed_calls.h"

using weft::Check;
using weft::NowNs;

namespace {

constexpr int kParts = 10;
constexpr size_t kWays = 5;
constexpr std::array<const char*, kWays> kNames = {"blocking", "wait", "queue", "thread",
                                                   "callback"};

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a future does: one thread waits until another one says so.
class Told {
 public:
  void Tell() {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_ = true;
    changed_.notify_one();
  }

  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return told_; });
    told_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

class Rank {
 public:
  Rank(weft_group_t group, size_t count) : group_(group), data_(count, 1.0f) {
    Check(weft_completion_queue_create(nullptr, &queue_));
    Check(weft_completion_queue_create(nullptr, &thread_queue_));
    server_ = std::thread([this] { Serve(); });
  }

  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ~Rank() {
    Check(weft_completion_queue_wake(thread_queue_));
    server_.join();
    Check(weft_completion_queue_destroy(thread_queue_));
    Check(weft_completion_queue_destroy(queue_));
  }

  void RunOnce(size_t way) {
    if (way == 0) return Issue(nullptr);
    weft_work_t work = nullptr;
    Issue(&work);
    weft_completion_t ended;
    size_t count = 0;
    switch (way) {
      case 1:
        Check(weft_work_wait(work, 0));
        break;
      case 2:
        Check(weft_completion_queue_add(queue_, work, 0));
        Check(weft_completion_queue_wait(queue_, 0, &ended, 1, &count));
        break;
      case 3:
        Check(weft_completion_queue_add(thread_queue_, work, 0));
        told_.Await();
        break;
      default:
        Check(weft_work_on_complete(
            work, [](weft_result_t, void* user) { static_cast<Told*>(user)->Tell(); }, &told_));
        told_.Await();
    }
    Check(weft_work_free(work));
  }

 private:
  void Issue(weft_work_t* work) {
    Check(weft_all_reduce(data_.data(), data_.data(), data_.size(), WEFT_FLOAT32, WEFT_MAX, group_,
                          nullptr, work));
  }

  void Serve() {
    weft_completion_t ended;
    for (size_t count = 1; count > 0;) {
      Check(weft_completion_queue_wait(thread_queue_, 0, &ended, 1, &count));
      if (count > 0) told_.Tell();
    }
  }

  const weft_group_t group_;
  std::vector<float> data_;
  weft_completion_queue_t queue_ = nullptr;
  weft_completion_queue_t thread_queue_ = nullptr;
  Told told_;
  std::thread server_;
};

// Microseconds per operation in each way.
std::array<double, kWays> Measure(weft_group_t group, bool measures, size_t count, int rounds) {
  Rank rank(group, count);
  std::array<std::vector<double>, kWays> medians;
  for (int part = 0; part < kParts; ++part) {
    for (size_t way = 0; way < kWays; ++way) {
      std::vector<double> times_us;
      times_us.reserve(static_cast<size_t>(rounds));
      Check(weft_barrier(group, nullptr, nullptr));
      for (int round = 0; round < rounds; ++round) {
        const int64_t begin_ns = NowNs();
        rank.RunOnce(measures ? way : 0);
        times_us.push_back(static_cast<double>(NowNs() - begin_ns) * 1e-3);
      }
      medians[way].push_back(MedianOf(times_us));
    }
  }
  std::array<double, kWays> result{};
  for (size_t way = 0; way < kWays; ++way)
    result[way] = MedianOf(medians[way]);
  return result;
}

void RunRank(const weft_unique_id_t& id, int number, int rounds) {
  weft_group_t group = nullptr;
  Check(weft_group_create_from_id(&id, 2, number, nullptr, &group));
  const bool prints = number == 0;
  if (prints) std::printf("{\n  \"version\": 1, \"ranks\": 2, \"rounds\": %d", rounds);
  for (const size_t bytes : {size_t{8}, size_t{256} << 10}) {
    const auto times_us =
        Measure(group, prints, bytes / sizeof(float), bytes > 8 ? rounds / 10 + 1 : rounds);
    if (!prints) continue;
    std::printf(",\n  \"us_%zu\": {", bytes);
    for (size_t way = 0; way < kWays; ++way)
      std::printf("%s\"%s\": %.2f", way > 0 ? ", " : "", kNames[way], times_us[way]);
    std::printf("}");
  }
  if (prints) std::printf("\n}\n");
  Check(weft_group_destroy(group));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) / kParts : 2000;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: completion_queue_bench [ROUNDS >= %d]\n", kParts);
    return 2;
  }
  weft_unique_id_t id;
  Check(weft_unique_id_create(&id));
  const pid_t other = fork();
  RunRank(id, other == 0 ? 1 : 0, rounds);
  if (other == 0) {
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(other, &status, 0);
  return status == 0 ? 0 : 1;
}
