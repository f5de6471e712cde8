#include "comm/group/split_wish.h"

#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

struct Wish {
  int32_t color;
  int32_t key;
};

}  // namespace

absl::StatusOr<std::vector<int>> AgreeOnMembers(ProcessGroup& parent, int color, int key,
                                                const GroupOptions& options) {
  std::vector<Wish> wishes;
  WEFT_RETURN_IF_ERROR(
      ExchangeForSplit(parent, options, kSplitWishSalt, Wish{color, key}, &wishes));
  std::vector<int> members;
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  return members;
}

GroupOptions OptionsOfPart(const GroupOptions& options, const GroupOptions& parent, int color) {
  GroupOptions named = options;
  if (named.name.empty()) named.name = fmt::format("{}.{}", parent.name, color);
  if (named.timeout_ns <= 0) named.timeout_ns = parent.timeout_ns;
  return named;
}

}  // namespace weft
