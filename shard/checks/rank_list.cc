#include "shard/checks/rank_list.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace weft {

std::string RankList(const std::vector<int>& ranks) {
  constexpr size_t kListed = 8;
  const auto end = ranks.begin() + static_cast<ptrdiff_t>(std::min(ranks.size(), kListed));
  std::string text =
      StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks.begin(), end, ", "));
  if (ranks.size() > kListed) absl::StrAppend(&text, " and ", ranks.size() - kListed, " more");
  return text;
}

}  // namespace weft
