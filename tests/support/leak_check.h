// What a process holds: to compare before and after.
//
//   const Holdings before = Holdings::Now();
//   ...
//   EXPECT_EQ(Holdings::Now().Since(before), "");
//
// Not names in /dev/shm: other programs put theirs there meanwhile, and weft makes none (house_test.py).
#pragma once

#include <set>
#include <string>

namespace weft::test {

struct Holdings {
  std::multiset<std::string> descriptors;  // what they point to
  std::multiset<std::string> mappings;   // of files and memfds; anonymous memory is the allocator's
  int threads = 0;

  static Holdings Now();

  // What is there that was not there before, one per line; "" if nothing.
  std::string Since(const Holdings& before) const;
};

// The seed of a randomised test: WEFT_TEST_SEED, or `standard`. Print it with SCOPED_TRACE.
unsigned long long TestSeed(unsigned long long standard);

}  // namespace weft::test
