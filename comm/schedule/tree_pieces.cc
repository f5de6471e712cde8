#include "comm/schedule/tree_pieces.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

// Walks T(P) from its root, left to right, down to the pieces.
class PieceWalk {
 public:
  explicit PieceWalk(std::span<const int> island_of_rank)
      : island_of_rank_(island_of_rank), run_ends_(island_of_rank.size()) {
    size_t end = island_of_rank.size();
    for (size_t rank = island_of_rank.size(); rank-- > 0;) {
      if (island_of_rank[rank] != island_of_rank[end - 1]) end = rank + 1;
      run_ends_[rank] = end;
    }
  }

  void Visit(size_t first, size_t count) {
    if (run_ends_[first] >= first + count) {
      found_.pieces.push_back(
          {island_of_rank_[first], static_cast<int>(first), static_cast<int>(count)});
      found_.merges.push_back(0);
      return;
    }
    const size_t left = std::bit_floor(count - 1);
    Visit(first, left);
    Visit(first + left, count - left);
    ++found_.merges.back();
  }

  TreePieces Take() { return std::move(found_); }

 private:
  const std::span<const int> island_of_rank_;
  std::vector<size_t> run_ends_;  // by rank: the first rank behind it that is on another island
  TreePieces found_;
};

}  // namespace

TreePieces PiecesOf(std::span<const int> island_of_rank) {
  WEFT_CHECK(!island_of_rank.empty());
  PieceWalk walk(island_of_rank);
  walk.Visit(0, island_of_rank.size());
  return walk.Take();
}

}  // namespace weft
