// The table of weft_perf's options: getopt's tables, the usage text and the checks of numbers are
// made from it.
#ifndef WEFT_BENCH_WEFT_PERF_OPTION_TABLE_H_
#define WEFT_BENCH_WEFT_PERF_OPTION_TABLE_H_

#include <span>
#include <string>

namespace weft::perf {

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

struct OptionText {
  int letter;            // or LongOnly
  const char* name;      // long name
  const char* argument;  // nullptr: takes none
  const char* meaning;   // nullptr: not in the usage text
};

struct NumberRange {
  int letter;
  long long least;
  long long largest;
};

std::span<const OptionText> OptionTable();
// Of the options that take a whole number.
std::span<const NumberRange> NumberRanges();

// "-n,--iters", "--hot"; "?" for what is no option.
std::string OptionName(int letter);
std::string UsageText(const std::string& program);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OPTION_TABLE_H_
