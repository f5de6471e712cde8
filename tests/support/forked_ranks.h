// Ranks as processes, for tests: forks them, watches the clock, collects what they say.
//
//   const std::vector<RankEnd> ends = RunForkedRanks(4, 20, [](int rank) -> std::string {
//     return everything_is_fine ? "" : "what is wrong";
//   });
//   for (const RankEnd& end : ends) EXPECT_EQ(end.Problem(), "");
//
// A rank that is not done within `timeout_s` is killed and reported; nothing outlives the call. The
// calling process must not have other threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::test {

struct RankEnd {
  int pid = -1;
  bool timed_out = false;
  int wait_status = 0;
  std::string said;  // what the body returned, or what it wrote before it died

  // "" if the rank ended by itself and its body returned "".
  std::string Problem() const;
};

std::vector<RankEnd> RunForkedRanks(int size, double timeout_s,
                                    const std::function<std::string(int rank)>& body);

}  // namespace weft::test
