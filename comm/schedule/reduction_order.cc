#include "comm/schedule/reduction_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// A subtree while the tree is put together from its merges: leaves, levels, and its pre-order list.
struct GrowingSubtree {
  int levels = 0;
  bool perfect = true;
  int32_t leaves = 1;
  int32_t left = -1;  // indexes of subtrees; -1 for a leaf
  int32_t right = -1;
};

}  // namespace

int32_t CanonicalLeft(int32_t leaves) {
  return static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(leaves - 1)));
}

absl::StatusOr<ReductionOrder> ReductionOrder::Create(int participants,
                                                      std::vector<OrderPiece> pieces,
                                                      std::vector<uint8_t> merges) {
  const auto bad = [](std::string_view why) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("the order of a reduction ", why));
  };
  if (participants < 1 || pieces.size() != merges.size() || pieces.empty()) {
    return bad(StrCat("has ", participants, " participants, ", pieces.size(), " pieces and ",
                      merges.size(), " numbers of merges; every piece has one"));
  }
  std::vector<GrowingSubtree> all;
  std::vector<int32_t> stack;
  for (size_t i = 0; i < merges.size(); ++i) {
    stack.push_back(static_cast<int32_t>(all.size()));
    all.push_back({});
    if (merges[i] >= stack.size()) {
      return bad(
          StrCat("forms ", merges[i], " sums after piece ", i, " of ", stack.size(), " values"));
    }
    for (int k = 0; k < merges[i]; ++k) {
      const int32_t right = stack.back();
      stack.pop_back();
      const int32_t left = stack.back();
      const GrowingSubtree& a = all[static_cast<size_t>(left)];
      const GrowingSubtree& b = all[static_cast<size_t>(right)];
      stack.back() = static_cast<int32_t>(all.size());
      all.push_back({.levels = std::max(a.levels, b.levels) + 1,
                     .perfect = a.perfect && b.perfect && a.leaves == b.leaves,
                     .leaves = a.leaves + b.leaves,
                     .left = left,
                     .right = right});
    }
  }
  if (stack.size() != 1) return bad(StrCat("leaves ", stack.size(), " sums, not one"));
  const int levels = all[static_cast<size_t>(stack.front())].levels;
  if (levels > kLevelsMax) {
    return bad(StrCat("has ", levels, " levels; at most ", kLevelsMax, " are allowed"));
  }

  auto tables = std::make_shared<Tables>();
  while (!stack.empty()) {
    const GrowingSubtree& at = all[static_cast<size_t>(stack.back())];
    stack.pop_back();
    tables->left.push_back(at.left < 0 ? 0 : all[static_cast<size_t>(at.left)].leaves);
    tables->perfect.push_back(at.perfect);
    if (at.left < 0) continue;
    stack.push_back(at.right);
    stack.push_back(at.left);
  }
  std::vector<std::vector<int32_t>> own(static_cast<size_t>(participants));
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].holder < 0 || pieces[i].holder >= participants) {
      return bad(StrCat("has piece ", i, " held by ", pieces[i].holder, " of ", participants,
                        " participants"));
    }
    own[static_cast<size_t>(pieces[i].holder)].push_back(static_cast<int32_t>(i));
  }
  for (size_t participant = 0; participant < own.size(); ++participant) {
    if (own[participant].empty()) return bad(StrCat("has no piece of participant ", participant));
    tables->own_begin.push_back(static_cast<int32_t>(tables->own.size()));
    int32_t of_form[2] = {};
    for (const int32_t piece : own[participant]) {
      tables->own.push_back(piece);
      tables->own_place.push_back(
          of_form[static_cast<size_t>(pieces[static_cast<size_t>(piece)].form)]++);
    }
  }
  tables->own_begin.push_back(static_cast<int32_t>(tables->own.size()));
  tables->levels = levels;
  tables->pieces = std::move(pieces);
  tables->merges = std::move(merges);
  ReductionOrder order;
  order.pieces_ = static_cast<int>(tables->pieces.size());
  order.tables_ = std::move(tables);
  return order;
}

bool ReductionOrder::OnePieceEach() const {
  return tables_ == nullptr || tables_->own_begin.size() == static_cast<size_t>(pieces_) + 1;
}

int ReductionOrder::HolderOf(int piece) const {
  return tables_ == nullptr ? piece : tables_->pieces[static_cast<size_t>(piece)].holder;
}

UnitForm ReductionOrder::FormOf(int piece) const {
  return tables_ == nullptr ? UnitForm::kElement : tables_->pieces[static_cast<size_t>(piece)].form;
}

int ReductionOrder::PieceCountOf(int participant) const {
  if (tables_ == nullptr) return 1;
  const auto at = static_cast<size_t>(participant);
  return tables_->own_begin[at + 1] - tables_->own_begin[at];
}

int ReductionOrder::PieceOf(int participant, int i) const {
  if (tables_ == nullptr) return participant;
  const int32_t begin = tables_->own_begin[static_cast<size_t>(participant)];
  return tables_->own[static_cast<size_t>(begin) + static_cast<size_t>(i)];
}

int ReductionOrder::PlaceOf(int participant, int i) const {
  if (tables_ == nullptr) return 0;
  const int32_t begin = tables_->own_begin[static_cast<size_t>(participant)];
  return tables_->own_place[static_cast<size_t>(begin) + static_cast<size_t>(i)];
}

std::span<const uint8_t> ReductionOrder::merges() const {
  return tables_ == nullptr ? std::span<const uint8_t>()
                            : std::span<const uint8_t>(tables_->merges);
}

int32_t ReductionOrder::LeftLeaves(const OrderVertex& vertex) const {
  return tables_ == nullptr ? CanonicalLeft(vertex.count)
                            : tables_->left[static_cast<size_t>(vertex.index)];
}

OrderVertex ReductionOrder::Left(const OrderVertex& vertex) const {
  return {vertex.first, LeftLeaves(vertex), vertex.index + 1};
}

OrderVertex ReductionOrder::Right(const OrderVertex& vertex) const {
  // A subtree of m leaves has 2 m - 1 vertices.
  const int32_t left = LeftLeaves(vertex);
  return {vertex.first + left, vertex.count - left, vertex.index + 2 * left};
}

bool ReductionOrder::IsPerfect(const OrderVertex& vertex) const {
  return tables_ == nullptr ? std::has_single_bit(static_cast<uint32_t>(vertex.count))
                            : tables_->perfect[static_cast<size_t>(vertex.index)];
}

int ReductionOrder::Levels() const {
  if (tables_ != nullptr) return tables_->levels;
  return pieces_ <= 1 ? 0 : std::bit_width(static_cast<uint32_t>(pieces_ - 1));
}

bool ReductionOrder::operator==(const ReductionOrder& other) const {
  if (pieces_ != other.pieces_ || (tables_ == nullptr) != (other.tables_ == nullptr)) return false;
  return tables_ == nullptr ||
         (tables_->pieces == other.tables_->pieces && tables_->merges == other.tables_->merges);
}

}  // namespace weft
