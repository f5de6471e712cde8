// How long it takes to make the first group of a process, and to split it, and what a part costs.
//
//   startup_bench [RANKS] [ROUNDS]      // 8 ranks, 20 rounds; one JSON object on standard output
//
// Every round forks RANKS processes that wait for one byte each, so that only the making is timed: from
// the byte on until the call has returned, the slowest rank counts. Medians and the extremes of the
// rounds. Shared bytes are what all ranks hold for the part after a small all_reduce, divided by them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weft/weft.h"

#include "bench/micro/timed_calls.h"

using weft::Check;
using weft::NowNs;

namespace {

constexpr int kRanksMax = 64;

struct Report {
  int64_t init_ns;
  int64_t split_ns;
  uint64_t part_shared_bytes;
};

Report RunRank(const weft_unique_id_t& id, int ranks, int rank, int start) {
  char byte = 0;
  if (read(start, &byte, 1) != 1) _exit(1);
  const int64_t begin_ns = NowNs();
  weft_group_t group = nullptr;
  Check(weft_group_create_from_id(&id, ranks, rank, nullptr, &group));
  const int64_t made_ns = NowNs();
  Check(weft_barrier(group, nullptr, nullptr));
  const int64_t split_begin_ns = NowNs();
  weft_group_t part = nullptr;
  Check(weft_group_split(group, 0, rank, nullptr, &part));
  const int64_t split_ns = NowNs() - split_begin_ns;
  float value = 1;
  Check(weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, part, nullptr, nullptr));
  weft_group_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  Check(weft_group_stats(part, &stats));
  Check(weft_barrier(group, nullptr, nullptr));
  Check(weft_group_destroy(part));
  Check(weft_group_destroy(group));
  return {made_ns - begin_ns, split_ns, stats.shared_bytes};
}

// One round; the slowest rank's times and the sum of the bytes.
Report RunRound(int ranks) {
  weft_unique_id_t id;
  Check(weft_unique_id_create(&id));
  int start[2];
  int done[2];
  if (pipe(start) != 0 || pipe(done) != 0) std::exit(1);
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    const Report report = RunRank(id, ranks, rank, start[0]);
    const bool written = write(done[1], &report, sizeof(report)) == sizeof(report);
    _exit(written ? 0 : 1);
  }
  usleep(50'000);  // all of them wait
  const std::vector<char> bytes(static_cast<size_t>(ranks), 'g');
  if (write(start[1], bytes.data(), bytes.size()) < 0) std::exit(1);
  close(done[1]);
  Report worst{};
  Report report;
  for (int rank = 0; rank < ranks; ++rank) {
    if (read(done[0], &report, sizeof(report)) != sizeof(report)) {
      std::fprintf(stderr, "startup_bench: a rank failed\n");
      std::exit(1);
    }
    worst.init_ns = std::max(worst.init_ns, report.init_ns);
    worst.split_ns = std::max(worst.split_ns, report.split_ns);
    worst.part_shared_bytes += report.part_shared_bytes;
  }
  for (int rank = 0; rank < ranks; ++rank)
    wait(nullptr);
  close(start[0]);
  close(start[1]);
  close(done[0]);
  return worst;
}

void PrintTimes(const char* name, std::vector<int64_t> times_ns, const char* end) {
  std::sort(times_ns.begin(), times_ns.end());
  const auto ms = [&](size_t index) {
    return static_cast<double>(times_ns[index]) * 1e-6;
  };
  std::printf("  \"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}%s\n", name,
              ms(times_ns.size() / 2), ms(0), ms(times_ns.size() - 1), end);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  if (argc > 3 || ranks < 1 || ranks > kRanksMax || rounds < 1) {
    std::fprintf(stderr, "usage: startup_bench [RANKS 1..%d] [ROUNDS]\n", kRanksMax);
    return 2;
  }
  std::vector<int64_t> init_ns;
  std::vector<int64_t> split_ns;
  uint64_t bytes = 0;
  for (int round = 0; round < rounds; ++round) {
    const Report report = RunRound(ranks);
    init_ns.push_back(report.init_ns);
    split_ns.push_back(report.split_ns);
    bytes = report.part_shared_bytes / static_cast<uint64_t>(ranks);
  }
  std::printf("{\n  \"version\": 1, \"ranks\": %d, \"rounds\": %d,\n", ranks, rounds);
  PrintTimes("init_ms", init_ns, ",");
  PrintTimes("split_ms", split_ns, ",");
  std::printf("  \"split_shared_bytes_per_rank\": %llu\n}\n",
              static_cast<unsigned long long>(bytes));
}
