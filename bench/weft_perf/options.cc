// A letter means what it means in nccl-tests, so that command lines carry over; hence options that have no effect. Usage text,
// getopt's tables and ranges come from one table. What depends on more than one option is in CheckTogether.
#include "bench/weft_perf/options.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <getopt.h>
#include <strings.h>

#include "base/quantity.h"

namespace weft::perf {
namespace {

// What getopt_long returns for options without a letter.
enum LongOnly {
  kProcesses = 256,
  kThreadsAsRanks,
  kHot,
  kSymmetric,
  kShared,
  kAsync,
  kBound,
  kRepro,
  kReproWorld,
};

template <auto kMember>
void Set(Options& options, long long number) {
  auto& member = options.*kMember;
  member = static_cast<std::remove_reference_t<decltype(member)>>(number);
}

template <auto kMember, auto kValue>
void SetTo(Options& options, long long) {
  options.*kMember = kValue;
}

constexpr std::array kOptions = {
    OptionRow{'t', "nthreads", "<n>", "threads per process (1)", Set<&Options::threads>, 1, 65536},
    OptionRow{'g', "ngpus", "<n>", "ranks per thread; each gets a thread of its own (1)",
              Set<&Options::ranks_per_thread>, 1, 65536},
    OptionRow{'b', "minbytes", "<size>", "smallest size, K M G allowed (32M)"},
    OptionRow{'e', "maxbytes", "<size>", "largest size (32M)"},
    OptionRow{'i', "stepbytes", "<size>", "distance of sizes (1M)"},
    OptionRow{'f', "stepfactor", "<n>", "ratio of sizes; wins over -i when above 1",
              Set<&Options::step_factor>, 0, INT_MAX},
    OptionRow{'n', "iters", "<n>", "timed iterations (20)", Set<&Options::iterations>, 1, INT_MAX},
    OptionRow{'m', "agg_iters", "<n>", "operations started together in an iteration (1)",
              Set<&Options::aggregated>, 1, 1 << 20},
    OptionRow{'w', "warmup_iters", "<n>", "untimed operations of each size (1)",
              Set<&Options::warmup>, 0, INT_MAX},
    OptionRow{'N', "run_cycles", "<n>", "how often to run all sizes, 0: for ever (1)",
              Set<&Options::cycles>, 0, INT_MAX},
    OptionRow{'p', "parallel_init", "<0/1>", "ranks always start concurrently; no effect",
              Set<&Options::parallel_init>, 0, 1},
    OptionRow{'c', "check", "<n>", "checked operations of each size, 0: none (1)",
              Set<&Options::checks>, 0, INT_MAX},
    OptionRow{'o', "op", "<name/all>", "sum prod min max avg mulsum (sum)"},
    OptionRow{
        'd', "datatype", "<name/all>",
        "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 (float)"},
    OptionRow{'r', "root", "<rank/all>", "root (0)", Set<&Options::root>, -1, INT_MAX},
    OptionRow{'z', "blocking", "<0-3>",
              "1: barrier after each operation, 3: after each iteration, untimed (0)",
              Set<&Options::blocking>, 0, 3},
    OptionRow{'y', "stream_null", "<0/1>", "no effect on CPU memory", nullptr, 0, 1},
    OptionRow{'T', "timeout", "<s>", "deadline of each operation, 0: the library's (0)",
              Set<&Options::timeout_s>, 0, INT_MAX},
    OptionRow{'G', "cudagraph", "<n>", "CUDA only: 0", nullptr, 0, INT_MAX},
    OptionRow{'C', "report_cputime", "<0/1>", "report the time to start the operations",
              Set<&Options::cpu_time>, 0, 1},
    OptionRow{'a', "average", "<0-3>", "time of rank 0, mean, least or largest over ranks (1)",
              Set<&Options::average>, 0, 3},
    OptionRow{'R', "local_register", "<0-3>",
              "1: registered memory, 2: symmetric memory, same as --symmetric, 3: --shared (0)",
              Set<&Options::memory>, 0, 3},
    OptionRow{'x', "cta_policy", "<n>", "no effect on CPU memory", nullptr, 0, INT_MAX},
    OptionRow{'D', "device_implementation", "<n>", "CUDA only: 0", nullptr, 0, INT_MAX},
    OptionRow{'V', "device_cta_count", "<n>", "no effect on CPU memory", nullptr, 0, INT_MAX},
    OptionRow{'J', "output_file", "<file.json>", "write the results as JSON as well"},
    OptionRow{'S', "report_timestamps", "<0/1>", "append the time of day to each line",
              Set<&Options::timestamps>, 0, 1},
    OptionRow{'M', "memory", "<0/1>", "report memory use at the end", Set<&Options::memory_report>,
              0, 1},
    OptionRow{'u', "unalign", "<n>", "shift the buffers by n elements (0)", Set<&Options::unalign>,
              0, 1 << 20},
    OptionRow{'I', "per_iter_timing", "<0/1>", "append columns on single iterations",
              Set<&Options::per_iteration>, 0, 1},
    OptionRow{'K', "per_iter_skip", "<n>", "leave the first n iterations out of these (0)",
              Set<&Options::per_iteration_skip>, 0, INT_MAX},
    OptionRow{'h', "help", nullptr, "this text"},
    OptionRow{kProcesses, "nprocs", "<n>", "start n processes as ranks", Set<&Options::processes>,
              1, 65536},
    OptionRow{kThreadsAsRanks, "threads-as-ranks", nullptr,
              "with --nprocs: threads instead of processes", Set<&Options::threads_as_ranks>},
    OptionRow{kHot, "hot", nullptr, "use the same buffers in every iteration", Set<&Options::hot>},
    OptionRow{kSymmetric, "symmetric", nullptr, "buffers from weft_mem_alloc",
              SetTo<&Options::memory, Memory::kSymmetric>},
    OptionRow{kShared, "shared", nullptr,
              "one result for all ranks, from weft_mem_alloc_shared; symmetric inputs",
              SetTo<&Options::memory, Memory::kShared>},
    OptionRow{kAsync, "async", nullptr, "start operations without waiting for the one before",
              Set<&Options::asynchronous>},
    OptionRow{kBound, "bound", nullptr, "compare with the measured memcpy rate after the table",
              Set<&Options::bound>},
    OptionRow{
        kRepro, "repro", nullptr,
        "hash results over every way to get them instead of timing; exit code 7 if two differ",
        Set<&Options::repro>},
    OptionRow{kReproWorld, "repro-world", nullptr, nullptr, Set<&Options::repro_world>},
};

const OptionRow* FindRow(int letter) {
  const auto* const row = std::ranges::find(kOptions, letter, &OptionRow::letter);
  return row != kOptions.end() ? row : nullptr;
}

std::string UsageText(const std::string& program) {
  std::string text = "USAGE: " + program;
  text += FindOperation(program) != nullptr ? " [options]\n" : " <operation> [options]\n";
  text += "  operations: " + OperationNames() + "\n";
  for (const OptionRow& option : kOptions) {
    if (option.meaning == nullptr) continue;
    const std::string name =
        OptionName(option.letter) + " " + (option.argument != nullptr ? option.argument : "");
    text += Printf("  [%s] %s\n", name.c_str(), option.meaning);
  }
  return text;
}

Outcome UsageFault(std::string message) {
  return Fail(ExitCode::kUsage, std::move(message));
}

bool EndsWithJson(const std::string& path) {
  constexpr size_t kLength = 5;
  if (path.size() < kLength) return false;
  return strcasecmp(path.c_str() + path.size() - kLength, ".json") == 0;
}

// The entry of that name, or all.
template <typename Entry>
Outcome TakeNames(const char* what, const OptionRow& row, const char* value,
                  std::span<const Entry> entries, std::vector<const Entry*>* taken) {
  taken->clear();
  const bool all = std::strcmp(value, "all") == 0;
  std::string names;
  for (const Entry& entry : entries) {
    if (all || std::strcmp(value, entry.name) == 0) taken->push_back(&entry);
    names += entry.name + std::string(" ");
  }
  if (!taken->empty()) return {};
  return UsageFault(
      Printf("there is no %s \"%s\"; -%c takes %sall", what, value, row.letter, names.c_str()));
}

Outcome TakeSize(const OptionRow& row, const char* value, size_t* bytes) {
  const double parsed = ParseSize(value);
  if (parsed < 0) {
    return Fail(ExitCode::kBadSize,
                Printf("invalid size specified for '%s': \"%s\" is not a number with K, M or G",
                       row.name, value));
  }
  *bytes = static_cast<size_t>(parsed);
  return {};
}

Outcome TakeNumber(const OptionRow& row, const char* value, Options* options) {
  const std::string name = OptionName(row.letter);
  char* end = nullptr;
  const long long number = std::strtoll(value, &end, 0);
  if (end == value || *end != '\0') {
    return UsageFault(Printf("%s takes a number, not \"%s\"", name.c_str(), value));
  }
  if (number < row.least || number > row.largest) {
    return UsageFault(Printf("%s %s is out of range; it takes %lld to %lld", name.c_str(), value,
                             row.least, row.largest));
  }
  if ((row.letter == 'G' || row.letter == 'D') && number != 0) {
    return UsageFault(Printf("%s %s needs CUDA, and this program measures CPU memory; leave it out",
                             name.c_str(), value));
  }
  if (row.set != nullptr) row.set(*options, number);
  return {};
}

// Reads one command line; the first fault ends it.
class Parser {
 public:
  explicit Parser(Options& options) : options_(options) {}

  Outcome Run(int argc, char** argv);

  bool help() const { return help_; }

 private:
  Outcome Take(const OptionRow& row, const char* value);
  Outcome CheckTogether() const;

  Options& options_;
  bool help_ = false;
};

Outcome Parser::Take(const OptionRow& row, const char* value) {
  switch (row.letter) {
    case 'h':
      help_ = true;
      return {};
    case 'b':
      return TakeSize(row, value, &options_.min_bytes);
    case 'e':
      return TakeSize(row, value, &options_.max_bytes);
    case 'i':
      return TakeSize(row, value, &options_.step_bytes);
    case 'o':
      return TakeNames("reduction", row, value, Reductions(), &options_.reductions);
    case 'd':
      return TakeNames("element type", row, value, ElementTypes(), &options_.types);
    case 'J':
      if (!EndsWithJson(value)) {
        return UsageFault(
            Printf("-J %s: the format follows the suffix, and only .json is known", value));
      }
      options_.json_path = value;
      return {};
    case 'r':
      if (std::strcmp(value, "all") != 0) break;
      options_.root = kAllRoots;
      return {};
    default:
      break;
  }
  if (row.argument != nullptr) return TakeNumber(row, value, &options_);
  row.set(options_, 1);
  return {};
}

Outcome Parser::CheckTogether() const {
  const Options& o = options_;
  if (o.operation == nullptr) {
    return UsageFault("which operation? " + OperationNames());
  }
  constexpr long long kRanksMax = 65536;
  if (static_cast<long long>(o.threads) * o.ranks_per_thread > kRanksMax) {
    return UsageFault(Printf("-t %d times -g %d is out of range; a process has at most %lld ranks",
                             o.threads, o.ranks_per_thread, kRanksMax));
  }
  if (o.min_bytes > o.max_bytes) {
    return Fail(ExitCode::kBadSize, Printf("invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu",
                                           o.min_bytes, o.max_bytes));
  }
  if (o.min_bytes < o.max_bytes && (o.step_factor > 1 ? o.min_bytes == 0 : o.step_bytes == 0)) {
    return UsageFault("the sizes would never grow; give -b above 0 with -f, or -i above 0");
  }
  if (o.threads_as_ranks && o.processes > 0 && o.ranks_per_process() > 1) {
    return UsageFault(
        "--threads-as-ranks with --nprocs says how many ranks there are; leave -t and -g "
        "out");
  }
  if (o.per_iteration && o.per_iteration_skip >= o.iterations) {
    return UsageFault(
        Printf("-K %d leaves none of the %d iterations", o.per_iteration_skip, o.iterations));
  }
  if (o.per_iteration && o.asynchronous) {
    return UsageFault("-I waits for every iteration, --async for none; choose one");
  }
  if (o.memory == Memory::kShared && !o.operation->may_share_result()) {
    return UsageFault(Printf(
        "--shared: the result of %s is not the same for all ranks; all_reduce, all_gather and "
        "broadcast have such a result",
        o.operation->name));
  }
  if (o.memory == Memory::kShared && (o.bound || o.repro)) {
    return UsageFault(
        "--bound and --repro are for results that each rank has for itself; leave --shared out");
  }
  if (o.repro && o.operation->is_barrier()) {
    return UsageFault("--repro compares results, and a barrier has none");
  }
  return {};
}

// Why getopt_long returned `found`; `last` is the argument it read last.
std::string Fault(int found, const char* last) {
  if (optopt == 0) return Printf("invalid option '%s'", last);
  const std::string name = OptionName(optopt);
  if (found == ':') return Printf("option %s needs a value", name.c_str());
  if (name != "?") return Printf("option %s takes no value", name.c_str());
  return Printf("invalid option '%c'", optopt);
}

Outcome Parser::Run(int argc, char** argv) {
  std::string letters = ":";
  std::vector<option> longs;
  for (const OptionRow& row : OptionTable()) {
    const int argument = row.argument != nullptr ? required_argument : no_argument;
    longs.push_back({row.name, argument, nullptr, row.letter});
    if (row.letter >= kProcesses) continue;
    letters += static_cast<char>(row.letter);
    if (argument == required_argument) letters += ':';
  }
  longs.push_back({});
  optind = 0;  // starts over, also for a second command line
  opterr = 0;
  for (;;) {
    const int letter = getopt_long(argc, argv, letters.c_str(), longs.data(), nullptr);
    if (letter == -1) break;
    if (letter == '?' || letter == ':') return UsageFault(Fault(letter, argv[optind - 1]));
    if (Outcome taken = Take(*FindRow(letter), optarg); !taken.ok()) return taken;
    if (help_) return {};
  }
  for (; optind < argc; ++optind) {
    if (options_.operation != nullptr) {
      return UsageFault(Printf("unexpected argument \"%s\"", argv[optind]));
    }
    options_.operation = FindOperation(argv[optind]);
    if (options_.operation == nullptr) {
      return UsageFault(Printf("there is no operation \"%s\"; there are %s", argv[optind],
                               OperationNames().c_str()));
    }
  }
  if (options_.repro_world) options_.repro = true;
  return CheckTogether();
}

}  // namespace

std::span<const OptionRow> OptionTable() {
  return kOptions;
}

std::string OptionName(int letter) {
  const OptionRow* const row = FindRow(letter);
  if (row == nullptr) return "?";
  return letter < kProcesses ? Printf("-%c,--%s", letter, row->name) : Printf("--%s", row->name);
}

size_t Options::NextSize(size_t bytes) const {
  if (step_factor > 1) {
    return bytes > SIZE_MAX / step_factor ? SIZE_MAX : bytes * step_factor;
  }
  return bytes > SIZE_MAX - step_bytes ? SIZE_MAX : bytes + step_bytes;
}

const char* MemoryName(Memory memory) {
  switch (memory) {
    case Memory::kPrivate:
      break;
    case Memory::kRegistered:
      return "registered";
    case Memory::kSymmetric:
      return "symmetric";
    case Memory::kShared:
      return "shared";
  }
  return "private";
}

double ParseSize(const char* text) {
  double size = 0;
  const bool is_size = std::strpbrk(text, "tT") == nullptr &&  // nccl-tests ends at G
                       ParseBytes(text, &size) && size <= static_cast<double>(PTRDIFF_MAX);
  return is_size ? std::floor(size) : -1;
}

CommandLine ParseCommandLine(int argc, char** argv) {
  CommandLine line;
  Options& options = line.options;
  const char* slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  options.program = slash != nullptr ? slash + 1 : (argc > 0 ? argv[0] : "weft_perf");
  options.operation = FindOperation(options.program);
  options.reductions = {FindReduction("sum")};
  options.types = {FindElementType("float")};
  Parser parser(options);
  const Outcome outcome = parser.Run(argc, argv);
  line.code = outcome.code;
  if (!outcome.ok()) {
    line.text = Printf("%s: %s (see --help)\n", options.program.c_str(), outcome.message.c_str());
  } else if (parser.help()) {
    line.text = UsageText(options.program);
  } else {
    line.run = true;
  }
  return line;
}

}  // namespace weft::perf
