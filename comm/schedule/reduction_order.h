// The tree in which a reduction adds its pieces, and who holds them.
//
//   const ReductionOrder ranks(8);                     // one vector of elements each, canonical order; no table
//   WEFT_ASSIGN_OR_RETURN(ReductionOrder order, ReductionOrder::Create(2, pieces, merges));
//   for (OrderVertex at = order.Root(); at.count > 1; at = order.Left(at)) ...
//
// A piece is a vector that one participant has: of elements if it is one rank's contribution, of accumulators if it is the sum of a
// subtree of ranks that the participant has formed by itself. Pieces are the leaves of the tree, left to right. In canonical order
// the left subtree has the largest power of two below the number of leaves (docs/design/001-numbers.md).
//
// Thread-safety: a value; copies share constant tables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// What a unit of a buffer consists of.
enum class UnitForm : uint8_t { kElement, kAccumulator };

struct OrderPiece {
  int32_t holder = 0;  // participant
  UnitForm form = UnitForm::kElement;

  bool operator==(const OrderPiece& other) const = default;
};

// A subtree: leaves first to first + count - 1.
struct OrderVertex {
  int32_t first = 0;
  int32_t count = 0;
  int32_t index = 0;  // in pre-order over the whole tree

  bool operator==(const OrderVertex& other) const = default;
};

// Leaves of the left subtree of a canonical tree: the largest power of two below `leaves`, which is at least 2.
int32_t CanonicalLeft(int32_t leaves);

class ReductionOrder {
 public:
  // Of a tree; those of 65,536 ranks have 16.
  static constexpr int kLevelsMax = 32;

  // Of no participants: "not given".
  ReductionOrder() = default;

  // Participant i holds piece i, elements; canonical.
  explicit ReductionOrder(int participants) : pieces_(participants) {}

  // merges[i] is the number of sums that are formed when leaf i has been taken, each of the last two values. Every participant holds
  // a piece. INVALID_ARGUMENT if that is no tree, or one with more than kLevelsMax levels.
  static absl::StatusOr<ReductionOrder> Create(int participants, std::vector<OrderPiece> pieces,
                                               std::vector<uint8_t> merges);

  int pieces() const { return pieces_; }

  bool IsCanonicalOfRanks() const { return tables_ == nullptr; }

  // True if every participant holds one piece.
  bool OnePieceEach() const;

  int HolderOf(int piece) const;
  UnitForm FormOf(int piece) const;

  // Of what a participant has of a vertex's sum: as the piece is, of a leaf.
  UnitForm SumFormOf(const OrderVertex& vertex) const {
    return vertex.count == 1 ? FormOf(vertex.first) : UnitForm::kAccumulator;
  }

  int PieceCountOf(int participant) const;
  // The i-th of the pieces that the participant holds, in ascending order.
  int PieceOf(int participant, int i) const;
  // How many of the participant's pieces before the i-th have the same form: it lies that many vectors behind the beginning of its buffer.
  int PlaceOf(int participant, int i) const;

  // As given to Create; empty for canonical orders of ranks.
  std::span<const uint8_t> merges() const;

  OrderVertex Root() const { return {0, pieces_, 0}; }

  // Of vertices with more than one leaf.
  OrderVertex Left(const OrderVertex& vertex) const;
  OrderVertex Right(const OrderVertex& vertex) const;

  // True if all leaves are equally far below.
  bool IsPerfect(const OrderVertex& vertex) const;

  // Levels above the deepest leaf.
  int Levels() const;

  bool operator==(const ReductionOrder& other) const;

 private:
  struct Tables {
    std::vector<OrderPiece> pieces;
    std::vector<uint8_t> merges;
    std::vector<int32_t> left;       // leaves of the left subtree by pre-order index; 0 for a leaf
    std::vector<bool> perfect;       // by pre-order index
    std::vector<int32_t> own_begin;  // by participant, into own; one more for the end
    std::vector<int32_t> own;        // pieces, grouped by participant
    std::vector<int32_t> own_place;  // PlaceOf, like own
    int levels = 0;
  };

  int32_t LeftLeaves(const OrderVertex& vertex) const;

  int pieces_ = 0;
  std::shared_ptr<const Tables> tables_;
};

}  // namespace weft
