#include "bench/weft_perf/launcher.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <strings.h>

namespace weft::perf {
namespace {

// SLURM_NTASKS also stands in the environment of a batch script, which is one process; the step's
// variable does so only for what srun started.
constexpr std::array kSizeVariables = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS"};

// "0x1f", "0b101" and decimal.
bool ParseNumber(const char* text, uint64_t* number) {
  int base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16;
  if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) base = 2;
  if (base != 10) text += 2;
  if (*text == '\0' || *text == '-') return false;
  char* end = nullptr;
  errno = 0;
  *number = std::strtoull(text, &end, base);
  return *end == '\0' && errno == 0;
}

// "MOD 2" and "%2" are '%' and 2; words in any case.
bool ParseSplit(const char* text, char* verb, uint64_t* number) {
  constexpr struct {
    const char* word;
    char verb;
  } kVerbs[] = {{"AND", '&'}, {"OR", '|'}, {"MOD", '%'}, {"DIV", '/'},
                {"&", '&'},   {"|", '|'},  {"%", '%'},   {"/", '/'}};

  for (const auto& known : kVerbs) {
    const size_t length = std::strlen(known.word);
    if (strncasecmp(text, known.word, length) != 0) continue;
    text += length;
    while (*text == ' ')
      ++text;
    *verb = known.verb;
    const bool divides = known.verb == '%' || known.verb == '/';
    return ParseNumber(text, number) && !(divides && *number == 0);
  }
  return false;
}

Outcome BadSplit(const char* variable, const char* text) {
  return Fail(
      ExitCode::kUsage,
      Printf("%s=\"%s\" is not understood; it takes AND, OR, MOD or DIV (or & | %% /) and a "
             "number, MASK takes a hexadecimal number",
             variable, text));
}

}  // namespace

std::vector<LauncherSize> LauncherSizes(const Lookup& lookup) {
  std::vector<LauncherSize> sizes;
  for (const char* variable : kSizeVariables) {
    const char* text = lookup(variable);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long size = std::strtol(text, &end, 10);
    // Text that is no number is the library's to complain about when it reads the same variable.
    if (end == text || *end != '\0' || size < 1 || size > 1 << 24) continue;
    sizes.push_back({variable, static_cast<int>(size)});
  }
  return sizes;
}

Outcome CheckLauncher(const std::vector<LauncherSize>& sizes, const Options& options) {
  if (options.processes == 0 && !options.threads_as_ranks) return {};
  for (const LauncherSize& hint : sizes) {
    if (hint.size <= 1) continue;
    const char* option = options.processes > 0 ? "--nprocs" : "--threads-as-ranks";
    return Fail(ExitCode::kUsage,
                Printf("%s starts ranks, but a launcher already started %d processes (%s=%d); drop "
                       "%s, or run without the launcher",
                       option, hint.size, hint.variable.c_str(), hint.size, option));
  }
  return {};
}

Outcome CheckWorldSize(const std::vector<LauncherSize>& sizes, int processes) {
  for (const LauncherSize& hint : sizes) {
    if (hint.size == processes) continue;
    return Fail(ExitCode::kUsage,
                Printf("%d process%s found each other, but the launcher says %s=%d; unset the "
                       "variables that belong to another launcher",
                       processes, processes == 1 ? "" : "es", hint.variable.c_str(), hint.size));
  }
  return {};
}

Outcome SplitColor(const Lookup& lookup, int process, int* color) {
  const auto self = static_cast<uint64_t>(process);
  uint64_t result = 0;
  if (const char* mask = lookup("NCCL_TESTS_SPLIT_MASK"); mask != nullptr) {
    char* end = nullptr;
    const uint64_t number = std::strtoull(mask, &end, 16);
    if (end == mask || *end != '\0') return BadSplit("NCCL_TESTS_SPLIT_MASK", mask);
    result = self & number;
  } else if (const char* split = lookup("NCCL_TESTS_SPLIT"); split != nullptr) {
    char verb = '\0';
    uint64_t number = 0;
    if (!ParseSplit(split, &verb, &number)) return BadSplit("NCCL_TESTS_SPLIT", split);
    switch (verb) {
      case '&':
        result = self & number;
        break;
      case '|':
        result = self | number;
        break;
      case '%':
        result = self % number;
        break;
      default:
        result = self / number;
        break;
    }
  }
  *color = static_cast<int>(result & 0x7fffffff);
  return {};
}

double LeastBandwidth(const Lookup& lookup) {
  const char* text = lookup("NCCL_TESTS_MIN_BW");
  return text != nullptr ? std::atof(text) : -1;
}

}  // namespace weft::perf
