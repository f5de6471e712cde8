// How islands share one canonical sum: which parts of the tree each can form by itself, and the tree over
// those parts.
//
//   const TreePieces tree = PiecesOf(island_of_rank);          // {0, 0, 0, 1, 1, 1}: three ranks per island
//   tree.pieces;   // {0, 0, 2}, {0, 2, 1}, {1, 3, 1}, {1, 4, 2}: ranks 0-1 and 2 of island 0, 3 and 4-5 of island 1
//   tree.merges;   // {0, 0, 2, 1}: ((0-1) + ((2) + (3))) + (4-5)
//
// The sum of a group of P ranks is T(P), the balanced binary tree of reduce.h over the group ranks. A tree
// piece is a largest subtree all of whose ranks are on one island: its island sums it (ReduceStage::kFirst),
// and nothing larger can be summed before data has travelled. Every subtree of T(P) over n ranks is T(n)
// itself, so the kernels' own order serves each piece.
//
// Invariants:
// 1. The pieces are in rank order and hold each rank once.
// 2. With each piece in the place of its subtree, `merges` is T(P): ReduceArguments::merges over the pieces.
//
// An island of 2^k ranks in launch order is one piece; docs/design/001-numbers.md has the other shapes. Where there are more
// than kSourcesMax pieces, vertices of the tree over them are joined first (ReduceStage::kMiddle).
//
// Thread-safety: a pure function; takes time and memory in proportion to the ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// The ranks first_rank .. first_rank + rank_count - 1 of the group, all of them on `island`.
struct TreePiece {
  int island;
  int first_rank;
  int rank_count;

  bool operator==(const TreePiece&) const = default;
};

struct TreePieces {
  std::vector<TreePiece> pieces;
  std::vector<uint8_t> merges;  // one per piece
};

// island_of_rank[r] is the island of group rank r; at least one rank. Any numbers tell islands apart.
TreePieces PiecesOf(std::span<const int> island_of_rank);

}  // namespace weft
