// libFuzzer's part of a case, which the build names: of WEFT_FUZZ_HEADER the class WEFT_FUZZ_CASE, with seeds, and what is wrong with an
// input. ./dev fuzz WHAT. A directory that is among the arguments gets the seeds.
//
//   build/asan/tests/checkpoint_fuzz -max_total_time=60 -rss_limit_mb=1024 build/fuzz/checkpoint
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/text.h"
#include WEFT_FUZZ_HEADER

// libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace {

weft::test::WEFT_FUZZ_CASE& Case() {
  static auto* const made = new weft::test::WEFT_FUZZ_CASE;
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path directory = (*argv)[i];
    if (!std::filesystem::is_directory(directory)) continue;
    int number = 0;
    for (const std::string& seed : Case().Seeds()) {
      std::ofstream file(directory / weft::StrCat("seed-", number++), std::ios::binary);
      file.write(seed.data(), static_cast<std::streamsize>(seed.size()));
    }
    break;
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned seed) {
  std::mt19937_64 random(seed);
  if (size == 0 || random() % 3 == 0) return LLVMFuzzerMutate(data, size, size_max);
  const std::string changed = weft::test::WEFT_FUZZ_CASE::Mutate(
      std::string(reinterpret_cast<const char*>(data), size), random);
  const size_t bytes = std::min(changed.size(), size_max);
  std::memcpy(data, changed.data(), bytes);
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong = Case().Try({reinterpret_cast<const char*>(data), size}).wrong;
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
