#include "tests/support/case_sample.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

namespace weft::test {
namespace {

size_t StrideOf(const SampleStrides& strides) {
#ifdef WEFT_SANITIZE
  return AllCasesWanted() ? strides.every : strides.sanitized;
#else
  return AllCasesWanted() ? 1 : strides.every;
#endif
}

}  // namespace

bool AllCasesWanted() {
  const char* const wanted = std::getenv("TEST_CASES");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

int64_t SecondsToTry(int64_t standard_seconds) {
  const char* const wanted = std::getenv("TEST_SECONDS");
  if (wanted != nullptr) return std::atoll(wanted);
#ifdef WEFT_SANITIZE
  return (standard_seconds + 2) / 3;
#else
  return standard_seconds;
#endif
}

uint64_t FirstSeedToTry(uint64_t standard) {
  const char* const wanted = std::getenv("TEST_FIRST_SEED");
  return wanted == nullptr ? standard : std::strtoull(wanted, nullptr, 10);
}

CaseSample::CaseSample(const SampleStrides& strides, uint64_t seed)
    : stride_(StrideOf(strides)), first_(static_cast<size_t>(seed % stride_)) {}

void CaseSample::Print(std::string_view matrix, size_t total) const {
  const size_t taken = total > first_ ? (total - first_ - 1) / stride_ + 1 : 0;
  std::printf("%.*s: %zu of %zu cases\n", static_cast<int>(matrix.size()), matrix.data(), taken,
              total);
  testing::Test::RecordProperty("cases", static_cast<int>(taken));
}

}  // namespace weft::test
