// Which cases of a large matrix a run tries: every n-th, or, with TEST_CASES=all (nightly), all of them.
//
//   const CaseSample sample({.every = 7, .sanitized = 23}, seed);
//   for (size_t i = 0; i < cases.size(); ++i) {
//     if (!sample.Takes(i)) continue;
//     ...
//   }
//   sample.Print("mixture matrix on 4 threads", cases.size());   // "...: 1204 of 8428 cases"
//
// Strides are primes, so that no loop of which a matrix is made is in step with them.
//
// Thread-safety: a value; all ranks of a test take the same cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::test {

struct SampleStrides {
  size_t every = 1;  // optimised
  // Sanitizers look for races and bad accesses, which fewer cases show as well.
  size_t sanitized = 1;
};

// True if this run is to leave nothing out. Builds with sanitizers then take what optimised ones take by default.
bool AllCasesWanted();

// For tests that try as many seeds as there is time for: how long, TEST_SECONDS if it is set; a third as long with sanitizers.
int64_t SecondsToTry(int64_t standard_seconds);
// And from which seed on: TEST_FIRST_SEED, else `standard`.
uint64_t FirstSeedToTry(uint64_t standard);

class CaseSample {
 public:
  CaseSample(const SampleStrides& strides, uint64_t seed);

  bool Takes(size_t index) const { return index % stride_ == first_; }

  // How many of the `total` cases were taken, to standard output and as the property "cases" of the running test.
  void Print(std::string_view matrix, size_t total) const;

 private:
  size_t stride_;
  size_t first_;
};

}  // namespace weft::test
