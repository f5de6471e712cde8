// What options cost a small blocking call: all_reduce of 8 bytes without options, with a timeout, and with a tag.
//
//   call_options_bench [ROUNDS]      // 21 rounds; one JSON object on standard output
//
// Ranks are threads. Every round times a run of calls of each form, one after the other; what counts is the difference of two
// forms in one round, of which the median and the quartiles over the rounds are printed, in nanoseconds per call.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <time.h>
#include <unistd.h>

#include "weft/weft.h"

#include "bench/micro/timed_calls.h"

using weft::Check;
using weft::NowNs;

namespace {

constexpr int kCalls = 20'000;
constexpr size_t kForms = 3;

// Nanoseconds per call of every form, round by round, on rank 0.
using Rounds = std::vector<std::array<double, kForms>>;

void RunRank(weft_group_t group, int rounds, Rounds* times) {
  weft_call_t timeout = {};
  timeout.struct_size = sizeof(timeout);
  timeout.timeout_ns = 60'000'000'000;
  weft_call_t tag = {};
  tag.struct_size = sizeof(tag);
  tag.tag = 7;
  const std::array<const weft_call_t*, kForms> forms = {nullptr, &timeout, &tag};
  int64_t value = 0;
  for (int round = -1; round < rounds; ++round) {
    std::array<double, kForms> taken{};
    for (size_t form = 0; form < kForms; ++form) {
      // In another order every round.
      const size_t which = (form + static_cast<size_t>(round + 1)) % kForms;
      const int64_t begin_ns = NowNs();
      for (int call = 0; call < kCalls; ++call) {
        Check(
            weft_all_reduce(&value, &value, 1, WEFT_INT64, WEFT_MAX, group, forms[which], nullptr));
      }
      taken[which] = static_cast<double>(NowNs() - begin_ns) / kCalls;
    }
    if (round >= 0 && times != nullptr) times->push_back(taken);
  }
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
}

std::string Figures(const std::vector<double>& values) {
  char text[128];
  std::snprintf(text, sizeof(text), "{\"median\": %.1f, \"q1\": %.1f, \"q3\": %.1f}",
                Quantile(values, 0.5), Quantile(values, 0.25), Quantile(values, 0.75));
  return text;
}

void PrintRanks(int ranks, int rounds, const char* end) {
  std::vector<weft_group_t> groups(static_cast<size_t>(ranks));
  Check(weft_group_create_local(ranks, nullptr, groups.data()));
  Rounds times;
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank)
    threads.emplace_back(RunRank, groups[static_cast<size_t>(rank)], rounds, nullptr);
  RunRank(groups[0], rounds, &times);
  for (std::thread& thread : threads)
    thread.join();
  for (weft_group_t group : groups)
    Check(weft_group_destroy(group));
  std::vector<double> plain, timeout, tag;
  for (const std::array<double, kForms>& round : times) {
    plain.push_back(round[0]);
    timeout.push_back(round[1] - round[0]);
    tag.push_back(round[2] - round[0]);
  }
  std::printf(
      "  \"ranks_%d\": {\"plain_ns\": %s,\n    \"timeout_adds_ns\": %s,\n    \"tag_adds_ns\": "
      "%s}%s\n",
      ranks, Figures(plain).c_str(), Figures(timeout).c_str(), Figures(tag).c_str(), end);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  if (rounds < 1 || rounds > 10'000) {
    std::fprintf(stderr, "call_options_bench [ROUNDS], 1 to 10000\n");
    return 2;
  }
  std::printf("{\n");
  PrintRanks(1, rounds, ",");
  PrintRanks(2, rounds, "");
  std::printf("}\n");
  return 0;
}
