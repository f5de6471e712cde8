#include "comm/hierarchy/span_price.h"

#include <algorithm>
#include <numeric>

#include "comm/schedule/tree_pieces.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

// More are not read by anybody.
constexpr size_t kRanksNamedMax = 64;

}  // namespace

int PiecesMax(const Islands& islands) {
  std::vector<int> pieces(islands.ranks.size());
  for (const TreePiece& piece : PiecesOf(islands.island_of).pieces)
    ++pieces[static_cast<size_t>(piece.island)];
  return pieces.empty() ? 0 : *std::max_element(pieces.begin(), pieces.end());
}

std::vector<int> NestedOrder(const Islands& islands) {
  std::vector<size_t> by_size(islands.ranks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    return islands.ranks[a].size() > islands.ranks[b].size();
  });
  std::vector<int> order;
  for (const size_t island : by_size)
    order.insert(order.end(), islands.ranks[island].begin(), islands.ranks[island].end());
  return order;
}

Islands Reordered(const Islands& islands, const std::vector<int>& order) {
  Islands reordered;
  std::vector<int> numbers(islands.ranks.size(), -1);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    int& number = numbers[static_cast<size_t>(islands.island_of[static_cast<size_t>(order[rank])])];
    if (number < 0) {
      number = reordered.count();
      reordered.ranks.emplace_back();
    }
    reordered.ranks[static_cast<size_t>(number)].push_back(static_cast<int>(rank));
    reordered.island_of.push_back(number);
  }
  return reordered;
}

std::string PriceSentence(const Islands& islands) {
  const int pieces = PiecesMax(islands);
  const std::vector<int> order = NestedOrder(islands);
  const int nested = PiecesMax(Reordered(islands, order));
  if (nested >= pieces) return "";
  const std::string named =
      order.size() <= kRanksNamedMax ? fmt::format(": {}", fmt::join(order, ",")) : std::string();
  return fmt::format(
      "its ranks are on {} nodes in an order in which a node sums {} pieces for itself, and sends "
      "{} times its vector in an all_reduce (sum) of float32 where {} would do (integers, bits, "
      "min "
      "and max cost nothing more); start the ranks node by node, nodes with more of them first{}",
      islands.count(), pieces, 1 + pieces, 1 + nested, named);
}

}  // namespace weft
