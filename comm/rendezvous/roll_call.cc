#include "comm/rendezvous/roll_call.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kListedMax = 16;

}  // namespace

std::string ListText(const std::vector<int>& ranks) {
  const size_t listed = std::min(ranks.size(), kListedMax);
  std::string list = absl::StrJoin(ranks.begin(), ranks.begin() + static_cast<long>(listed), ", ");
  if (ranks.size() > listed) list += StrCat(" and ", ranks.size() - listed, " more");
  return list;
}

std::string RanksText(const std::vector<int>& ranks) {
  return StrCat(ranks.size() == 1 ? "rank " : "ranks ", ListText(ranks));
}

}  // namespace weft
