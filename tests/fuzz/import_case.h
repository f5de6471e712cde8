// Bytes of any kind as a model of another program, in two safetensors files with an index, and what import makes of them: an error that leaves
// nothing, or exactly what the files say.
//
//   ImportCase model;
//   for (const std::string& input : model.Seeds()) EXPECT_EQ(model.Try(input).wrong, "");
//
// An input is a byte of flags and then three pieces with a byte 0xff between two: the index, and the header of each file as JSON, whose data are as
// long as it says, up to a few kB. kFolder: the folder is imported, without the index. kVerbatim: the
// pieces of the two files are all of them.
//
// Thread-safety: one thread.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

struct ImportOutcome {
  std::string wrong;      // empty: as it should be
  bool imported = false;  // else it was refused
};

class ImportCase {
 public:
  static constexpr unsigned kFolder = 1;
  static constexpr unsigned kVerbatim = 2;

  // Whole models.
  std::vector<std::string> Seeds() const;

  // As MutateJson().
  static std::string Mutate(std::string input, std::mt19937_64& random);

  ImportOutcome Try(std::string_view input) const;
};

}  // namespace weft::test
