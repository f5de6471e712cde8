#include "bench/weft_perf/options.h"

#include <array>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <getopt.h>
#include <strings.h>

#include "bench/weft_perf/option_table.h"

namespace weft::perf {
namespace {

// Reads one command line; the first fault ends it.
class Parser {
 public:
  explicit Parser(Options& options) : options_(options) {}

  Outcome Run(int argc, char** argv);

  bool help() const { return help_; }

 private:
  Outcome Take(int letter, const char* value);
  Outcome TakeNumber(int letter, const char* value, long long number);
  Outcome TakeSize(int letter, const char* value, size_t& bytes);
  Outcome TakeReduction(const char* value);
  Outcome TakeType(const char* value);
  Outcome CheckTogether() const;

  Options& options_;
  bool help_ = false;
};

Outcome UsageFault(std::string message) {
  return Fail(ExitCode::kUsage, std::move(message));
}

bool EndsWithJson(const std::string& path) {
  constexpr size_t kLength = 5;
  if (path.size() < kLength) return false;
  return strcasecmp(path.c_str() + path.size() - kLength, ".json") == 0;
}

Outcome Parser::TakeSize(int letter, const char* value, size_t& bytes) {
  const double parsed = ParseSize(value);
  if (parsed < 0) {
    return Fail(
        ExitCode::kBadSize,
        Printf("invalid size specified for '%s': \"%s\" is not a number with K, M or G",
               letter == 'b' ? "minbytes" : (letter == 'e' ? "maxbytes" : "stepbytes"), value));
  }
  bytes = static_cast<size_t>(parsed);
  return {};
}

Outcome Parser::TakeReduction(const char* value) {
  options_.reductions.clear();
  if (std::strcmp(value, "all") == 0) {
    for (const Reduction& reduction : Reductions())
      options_.reductions.push_back(&reduction);
    return {};
  }
  const Reduction* reduction = FindReduction(value);
  if (reduction == nullptr) {
    return UsageFault(
        Printf("there is no reduction \"%s\"; -o takes %s all", value, ReductionNames().c_str()));
  }
  options_.reductions.push_back(reduction);
  return {};
}

Outcome Parser::TakeType(const char* value) {
  options_.types.clear();
  if (std::strcmp(value, "all") == 0) {
    for (const ElementType& type : ElementTypes())
      options_.types.push_back(&type);
    return {};
  }
  const ElementType* type = FindElementType(value);
  if (type == nullptr) {
    return UsageFault(Printf("there is no element type \"%s\"; -d takes %s all", value,
                             ElementTypeNames().c_str()));
  }
  options_.types.push_back(type);
  return {};
}

Outcome Parser::TakeNumber(int letter, const char* value, long long number) {
  const auto small = static_cast<int>(number);
  switch (letter) {
    case 't':
      options_.threads = small;
      break;
    case 'g':
      options_.ranks_per_thread = small;
      break;
    case 'f':
      options_.step_factor = static_cast<size_t>(number);
      break;
    case 'n':
      options_.iterations = small;
      break;
    case 'm':
      options_.aggregated = small;
      break;
    case 'w':
      options_.warmup = small;
      break;
    case 'N':
      options_.cycles = small;
      break;
    case 'p':
      options_.parallel_init = small;
      break;
    case 'c':
      options_.checks = small;
      break;
    case 'r':
      options_.root = small;
      break;
    case 'z':
      options_.blocking = static_cast<Blocking>(small);
      break;
    case 'T':
      options_.timeout_s = small;
      break;
    case 'C':
      options_.cpu_time = number != 0;
      break;
    case 'a':
      options_.average = static_cast<Average>(small);
      break;
    case 'S':
      options_.timestamps = number != 0;
      break;
    case 'M':
      options_.memory_report = number != 0;
      break;
    case 'u':
      options_.unalign = static_cast<size_t>(number);
      break;
    case 'I':
      options_.per_iteration = number != 0;
      break;
    case 'K':
      options_.per_iteration_skip = small;
      break;
    case kProcesses:
      options_.processes = small;
      break;
    case 'G':
    case 'D':
      if (number == 0) break;
      return UsageFault(
          Printf("%s %s needs CUDA, and this program measures CPU memory; leave it out",
                 OptionName(letter).c_str(), value));
    case 'R':
      options_.memory = static_cast<Memory>(small);
      break;
    default:
      break;  // -x, -V and -y have no meaning on CPU memory
  }
  return {};
}

Outcome Parser::Take(int letter, const char* value) {
  switch (letter) {
    case 'h':
      help_ = true;
      return {};
    case kThreadsAsRanks:
      options_.threads_as_ranks = true;
      return {};
    case kHot:
      options_.hot = true;
      return {};
    case kSymmetric:
      options_.memory = Memory::kSymmetric;
      return {};
    case kShared:
      options_.memory = Memory::kShared;
      return {};
    case kAsync:
      options_.asynchronous = true;
      return {};
    case kBound:
      options_.bound = true;
      return {};
    case kReproWorld:
      options_.repro_world = true;
      [[fallthrough]];
    case kRepro:
      options_.repro = true;
      return {};
    case 'b':
      return TakeSize(letter, value, options_.min_bytes);
    case 'e':
      return TakeSize(letter, value, options_.max_bytes);
    case 'i':
      return TakeSize(letter, value, options_.step_bytes);
    case 'o':
      return TakeReduction(value);
    case 'd':
      return TakeType(value);
    case 'J':
      if (!EndsWithJson(value)) {
        return UsageFault(
            Printf("-J %s: the format follows the suffix, and only .json is known", value));
      }
      options_.json_path = value;
      return {};
    default:
      break;
  }
  if (letter == 'r' && std::strcmp(value, "all") == 0) {
    options_.root = kAllRoots;
    return {};
  }
  char* end = nullptr;
  const long long number = std::strtoll(value, &end, 0);
  if (end == value || *end != '\0') {
    return UsageFault(Printf("%s takes a number, not \"%s\"", OptionName(letter).c_str(), value));
  }
  for (const NumberRange& range : NumberRanges()) {
    if (range.letter == letter && (number < range.least || number > range.largest)) {
      return UsageFault(Printf("%s %s is out of range; it takes %lld to %lld",
                               OptionName(letter).c_str(), value, range.least, range.largest));
    }
  }
  return TakeNumber(letter, value, number);
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
  for (const OptionText& text : OptionTable()) {
    const int argument = text.argument != nullptr ? required_argument : no_argument;
    longs.push_back({text.name, argument, nullptr, text.letter});
    if (text.letter >= kProcesses) continue;
    letters += static_cast<char>(text.letter);
    if (argument == required_argument) letters += ':';
  }
  longs.push_back({});
  optind = 0;  // starts over, also for a second command line
  opterr = 0;
  for (;;) {
    const int letter = getopt_long(argc, argv, letters.c_str(), longs.data(), nullptr);
    if (letter == -1) break;
    if (letter == '?' || letter == ':') return UsageFault(Fault(letter, argv[optind - 1]));
    if (Outcome taken = Take(letter, optarg); !taken.ok()) return taken;
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
  return CheckTogether();
}

}  // namespace

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
  char unit = '\0';
  const int found = std::sscanf(text, "%lf %c", &size, &unit);
  if (found < 1 || !std::isfinite(size) || size < 0) return -1;
  if (found == 2) {
    switch (std::toupper(static_cast<unsigned char>(unit))) {
      case 'K':
        size *= 1024.0;
        break;
      case 'M':
        size *= 1024.0 * 1024.0;
        break;
      case 'G':
        size *= 1024.0 * 1024.0 * 1024.0;
        break;
      default:
        return -1;
    }
  }
  return size > static_cast<double>(PTRDIFF_MAX) ? -1 : std::floor(size);
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
