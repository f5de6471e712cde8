// Ranks in words, for sentences that name them.
//
//   StrCat("a save waits for ", RankList(missing))      // "a save waits for ranks 2, 5"
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

namespace weft {

// "rank 2", "ranks 2, 5"; of more than 8, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 12 more".
std::string RankList(const std::vector<int>& ranks);

}  // namespace weft
