#include "bench/weft_perf/option_table.h"

#include <array>
#include <climits>

#include "bench/weft_perf/operation.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {
namespace {

constexpr std::array kOptions = {
    OptionText{'t', "nthreads", "<n>", "threads per process (1)"},
    OptionText{'g', "ngpus", "<n>", "ranks per thread; each gets a thread of its own (1)"},
    OptionText{'b', "minbytes", "<size>", "smallest size, K M G allowed (32M)"},
    OptionText{'e', "maxbytes", "<size>", "largest size (32M)"},
    OptionText{'i', "stepbytes", "<size>", "distance of sizes (1M)"},
    OptionText{'f', "stepfactor", "<n>", "ratio of sizes; wins over -i when above 1"},
    OptionText{'n', "iters", "<n>", "timed iterations (20)"},
    OptionText{'m', "agg_iters", "<n>", "operations started together in an iteration (1)"},
    OptionText{'w', "warmup_iters", "<n>", "untimed operations of each size (1)"},
    OptionText{'N', "run_cycles", "<n>", "how often to run all sizes, 0: for ever (1)"},
    OptionText{'p', "parallel_init", "<0/1>", "ranks always start concurrently; no effect"},
    OptionText{'c', "check", "<n>", "checked operations of each size, 0: none (1)"},
    OptionText{'o', "op", "<name/all>", "sum prod min max avg mulsum (sum)"},
    OptionText{'d', "datatype", "<name/all>",
               "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 "
               "(float)"},
    OptionText{'r', "root", "<rank/all>", "root (0)"},
    OptionText{'z', "blocking", "<0-3>",
               "1: barrier after each operation, 3: after each iteration, untimed (0)"},
    OptionText{'y', "stream_null", "<0/1>", "no effect on CPU memory"},
    OptionText{'T', "timeout", "<s>", "deadline of each operation, 0: the library's (0)"},
    OptionText{'G', "cudagraph", "<n>", "CUDA only: 0"},
    OptionText{'C', "report_cputime", "<0/1>", "report the time to start the operations"},
    OptionText{'a', "average", "<0-3>", "time of rank 0, mean, least or largest over ranks (1)"},
    OptionText{'R', "local_register", "<0-3>",
               "1: registered memory, 2: symmetric memory, same as --symmetric, 3: --shared (0)"},
    OptionText{'x', "cta_policy", "<n>", "no effect on CPU memory"},
    OptionText{'D', "device_implementation", "<n>", "CUDA only: 0"},
    OptionText{'V', "device_cta_count", "<n>", "no effect on CPU memory"},
    OptionText{'J', "output_file", "<file.json>", "write the results as JSON as well"},
    OptionText{'S', "report_timestamps", "<0/1>", "append the time of day to each line"},
    OptionText{'M', "memory", "<0/1>", "report memory use at the end"},
    OptionText{'u', "unalign", "<n>", "shift the buffers by n elements (0)"},
    OptionText{'I', "per_iter_timing", "<0/1>", "append columns on single iterations"},
    OptionText{'K', "per_iter_skip", "<n>", "leave the first n iterations out of these (0)"},
    OptionText{'h', "help", nullptr, "this text"},
    OptionText{kProcesses, "nprocs", "<n>", "start n processes as ranks"},
    OptionText{kThreadsAsRanks, "threads-as-ranks", nullptr,
               "with --nprocs: threads instead of processes"},
    OptionText{kHot, "hot", nullptr, "use the same buffers in every iteration"},
    OptionText{kSymmetric, "symmetric", nullptr, "buffers from weft_mem_alloc"},
    OptionText{kShared, "shared", nullptr,
               "one result for all ranks, from weft_mem_alloc_shared; symmetric inputs"},
    OptionText{kAsync, "async", nullptr, "start operations without waiting for the one before"},
    OptionText{kBound, "bound", nullptr, "compare with the measured memcpy rate after the table"},
    OptionText{
        kRepro, "repro", nullptr,
        "hash results over every way to get them instead of timing; exit code 7 if two differ"},
    OptionText{kReproWorld, "repro-world", nullptr, nullptr},
};

constexpr std::array kRanges = {
    NumberRange{'t', 1, 65536},   NumberRange{'g', 1, 65536},
    NumberRange{'f', 0, INT_MAX}, NumberRange{'n', 1, INT_MAX},
    NumberRange{'m', 1, 1 << 20}, NumberRange{'w', 0, INT_MAX},
    NumberRange{'N', 0, INT_MAX}, NumberRange{'p', 0, 1},
    NumberRange{'c', 0, INT_MAX}, NumberRange{'r', -1, INT_MAX},
    NumberRange{'z', 0, 3},       NumberRange{'y', 0, 1},
    NumberRange{'T', 0, INT_MAX}, NumberRange{'G', 0, INT_MAX},
    NumberRange{'C', 0, 1},       NumberRange{'a', 0, 3},
    NumberRange{'R', 0, 3},       NumberRange{'x', 0, INT_MAX},
    NumberRange{'D', 0, INT_MAX}, NumberRange{'V', 0, INT_MAX},
    NumberRange{'S', 0, 1},       NumberRange{'M', 0, 1},
    NumberRange{'u', 0, 1 << 20}, NumberRange{'I', 0, 1},
    NumberRange{'K', 0, INT_MAX}, NumberRange{kProcesses, 1, 65536},
};

}  // namespace

std::span<const OptionText> OptionTable() {
  return kOptions;
}

std::span<const NumberRange> NumberRanges() {
  return kRanges;
}

std::string OptionName(int letter) {
  for (const OptionText& option : kOptions) {
    if (option.letter != letter) continue;
    if (letter < kProcesses) return Printf("-%c,--%s", letter, option.name);
    return Printf("--%s", option.name);
  }
  return "?";
}

std::string UsageText(const std::string& program) {
  std::string text = "USAGE: " + program;
  text += FindOperation(program) != nullptr ? " [options]\n" : " <operation> [options]\n";
  text += "  operations: " + OperationNames() + "\n";
  for (const OptionText& option : kOptions) {
    if (option.meaning == nullptr) continue;
    const std::string name =
        OptionName(option.letter) + " " + (option.argument != nullptr ? option.argument : "");
    text += Printf("  [%s] %s\n", name.c_str(), option.meaning);
  }
  return text;
}

}  // namespace weft::perf
