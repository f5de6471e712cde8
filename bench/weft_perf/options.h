// The command line: nccl-tests' options under their letters, long names and defaults, and
// weft_perf's own, which have long names only.
//
//   CommandLine line = ParseCommandLine(argc, argv);
//   if (!line.run) ...   // print line.text, exit with line.code
#ifndef WEFT_BENCH_WEFT_PERF_OPTIONS_H_
#define WEFT_BENCH_WEFT_PERF_OPTIONS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

inline constexpr int kAllRoots = -1;

// Which rank's time stands in the table (-a).
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

// When a rank waits for its operations and for its peers (-z).
enum class Blocking { kNone = 0, kWaitAndBarrier = 1, kWait = 2, kBarrierOutsideTime = 3 };

// Where buffers lie (-R).
// kShared: the receive buffer is one for all ranks, the send buffers are symmetric.
enum class Memory { kPrivate, kRegistered, kSymmetric, kShared };

const char* MemoryName(Memory memory);  // "private"...

struct Options {
  const Operation* operation = nullptr;
  std::string program;  // argv[0] without folders

  int threads = 1;                           // -t
  int ranks_per_thread = 1;                  // -g
  size_t min_bytes = 32u << 20;              // -b
  size_t max_bytes = 32u << 20;              // -e
  size_t step_bytes = 1u << 20;              // -i
  size_t step_factor = 1;                    // -f
  int iterations = 20;                       // -n
  int aggregated = 1;                        // -m
  int warmup = 1;                            // -w
  int cycles = 1;                            // -N, 0: for ever
  int parallel_init = 0;                     // -p
  int checks = 1;                            // -c
  std::vector<const Reduction*> reductions;  // -o
  std::vector<const ElementType*> types;     // -d
  int root = 0;                              // -r
  Blocking blocking = Blocking::kNone;       // -z
  int timeout_s = 0;                         // -T
  bool cpu_time = false;                     // -C
  Average average = Average::kMean;          // -a
  Memory memory = Memory::kPrivate;          // -R, --symmetric, --shared
  bool timestamps = false;                   // -S
  std::string json_path;                     // -J
  bool memory_report = false;                // -M
  size_t unalign = 0;                        // -u, elements
  bool per_iteration = false;                // -I
  int per_iteration_skip = 0;                // -K

  int processes = 0;              // --nprocs, 0: this one only
  bool threads_as_ranks = false;  // --threads-as-ranks
  bool hot = false;               // --hot
  bool asynchronous = false;      // --async
  bool bound = false;             // --bound
  bool repro = false;             // --repro
  bool repro_world = false;       // --repro, and started by it: repro.h

  int ranks_per_process() const { return threads * ranks_per_thread; }

  // The size after `bytes`; past the end instead of around it.
  size_t NextSize(size_t bytes) const;
};

struct CommandLine {
  bool run = false;
  Options options;
  ExitCode code = ExitCode::kOk;  // when not run
  std::string text;               // for stdout when code is kOk, else for stderr
};

// Reads everything; does not look at the environment. Not thread-safe (getopt).
CommandLine ParseCommandLine(int argc, char** argv);

// A row of the table from which the usage text, getopt's tables and the checks of numbers are made.
struct OptionRow {
  int letter;            // above 255 for an option without one
  const char* name;      // long name
  const char* argument;  // nullptr: takes none
  const char* meaning;   // nullptr: not in the usage text
  // Stores a number, or 1 for an option without argument; nullptr: it has no effect, or takes more than a number.
  void (*set)(Options& options, long long number) = nullptr;
  long long least = 0;  // of the number
  long long largest = 0;
};

std::span<const OptionRow> OptionTable();

// "-n,--iters", "--hot"; "?" for what is no option.
std::string OptionName(int letter);

// "1.5K", "64M", "2g", "12": bytes, or -1 when it is not a size.
double ParseSize(const char* text);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OPTIONS_H_
