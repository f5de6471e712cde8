// What a rank still holds that has left all of its groups.
//
//   const Holdings before = Holdings::Now();
//   ... make groups, use and close them ...
//   return LeftBehind(before);                  // "" if nothing
//
// Rank 0 keeps a group's segment until the others have left; they may be a moment behind. What may be given back later is when a group
// is made or closed, so one is.
#pragma once

#include <cstdint>
#include <string>

#include "base/wait.h"
#include "comm/node/make_group.h"
#include "tests/support/leak_check.h"

namespace weft::test {

inline std::string LeftBehind(const Holdings& before) {
  constexpr int64_t kPatienceNs = 10'000'000'000;
  std::string left;
  const int64_t start_ns = MonotonicNs();
  do {
    CreateLocalGroups(1, {.name = "reaper"}).value()[0]->Close();
    left = Holdings::Now().Since(before);
  } while (!left.empty() && MonotonicNs() - start_ns < kPatienceNs);
  return left.empty() ? "" : "left behind: " + left;
}

}  // namespace weft::test
