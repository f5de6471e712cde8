// What a process holds: to compare before and after.
//
//   const Holdings before = Holdings::Now();
//   ...
//   EXPECT_EQ(Holdings::Now().Since(before), "");
#pragma once

#include <set>
#include <string>

namespace weft::test {

struct Holdings {
  std::multiset<std::string> descriptors;  // what they point to
  std::multiset<std::string> mappings;   // of files and memfds; anonymous memory is the allocator's
  std::multiset<std::string> shm_files;  // names in /dev/shm
  int threads = 0;

  static Holdings Now();

  // What is there that was not there before, one per line; "" if nothing.
  std::string Since(const Holdings& before) const;
};

// The seed of a randomised test: WEFT_TEST_SEED, or `standard`. Print it with SCOPED_TRACE.
unsigned long long TestSeed(unsigned long long standard);

}  // namespace weft::test
