// What libFuzzer's part (libfuzzer.cc) asks of each program that it drives.
//
// Thread-safety: one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

struct Fuzzed {
  std::vector<std::string> seeds;
  // What is wrong with what an input makes; empty: nothing.
  std::function<std::string(std::string_view input)> wrong_of;
};

// Defined by each program.
Fuzzed MakeFuzzed();

}  // namespace weft::test
