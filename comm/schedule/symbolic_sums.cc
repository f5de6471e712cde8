#include "comm/schedule/symbolic_sums.h"

#include "base/text.h"
#include "comm/schedule/reduction_order.h"

namespace weft {
namespace {

constexpr size_t kSumTextMax = 200;

}  // namespace

SumId SymbolicSums::Add(const Vertex& vertex) {
  vertices_.push_back(vertex);
  return static_cast<SumId>(vertices_.size() - 1);
}

SumId SymbolicSums::Leaf(int32_t leaf) {
  const auto [found, added] = leaves_.try_emplace(leaf, kNoSum);
  if (added) found->second = Add({Kind::kLeaf, leaf, 0});
  return found->second;
}

SumId SymbolicSums::Join(SumId left, SumId right) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  const auto [found, added] = joins_.try_emplace(key, kNoSum);
  if (added) found->second = Add({Kind::kJoin, left, right});
  return found->second;
}

SumId SymbolicSums::Final(SumId sum) {
  const auto [found, added] = finals_.try_emplace(sum, kNoSum);
  if (added) found->second = Add({Kind::kFinal, sum, 0});
  return found->second;
}

SumId SymbolicSums::CanonicalTree(std::span<const SumId> values) {
  if (values.size() == 1) return values[0];
  const auto left = static_cast<size_t>(CanonicalLeft(static_cast<int32_t>(values.size())));
  const SumId a = CanonicalTree(values.first(left));
  return Join(a, CanonicalTree(values.subspan(left)));
}

SumId SymbolicSums::Tree(std::span<const SumId> values, std::span<const uint8_t> merges) {
  if (values.empty()) return kNoSum;
  if (merges.empty()) return CanonicalTree(values);
  if (merges.size() != values.size()) return kNoSum;
  std::vector<SumId> stack;
  for (size_t i = 0; i < values.size(); ++i) {
    stack.push_back(values[i]);
    if (merges[i] >= stack.size()) return kNoSum;
    for (int k = 0; k < merges[i]; ++k) {
      const SumId right = stack.back();
      stack.pop_back();
      stack.back() = Join(stack.back(), right);
    }
  }
  return stack.size() == 1 ? stack.front() : kNoSum;
}

bool SymbolicSums::HasEachOnce(SumId sum, int32_t count) const {
  if (sum == kNoSum || vertices_[static_cast<size_t>(sum)].kind != Kind::kFinal) return false;
  std::vector<bool> seen(static_cast<size_t>(count));
  int32_t left = count;
  std::vector<SumId> stack = {vertices_[static_cast<size_t>(sum)].a};
  while (!stack.empty()) {
    const Vertex& vertex = vertices_[static_cast<size_t>(stack.back())];
    stack.pop_back();
    if (vertex.kind == Kind::kFinal) return false;
    if (vertex.kind == Kind::kJoin) {
      stack.push_back(vertex.b);
      stack.push_back(vertex.a);
      continue;
    }
    // A sum that has a contribution twice ends the walk here, so shared subtrees cost nothing.
    if (vertex.a < 0 || vertex.a >= count || seen[static_cast<size_t>(vertex.a)]) return false;
    seen[static_cast<size_t>(vertex.a)] = true;
    --left;
  }
  return left == 0;
}

void SymbolicSums::Write(SumId sum, std::string* text) const {
  if (text->size() > kSumTextMax) return;
  if (sum == kNoSum) {
    *text += "nothing";
    return;
  }
  const Vertex& vertex = vertices_[static_cast<size_t>(sum)];
  switch (vertex.kind) {
    case Kind::kLeaf:
      *text += StrCat(vertex.a);
      return;
    case Kind::kJoin:
      *text += "(";
      Write(vertex.a, text);
      *text += " + ";
      Write(vertex.b, text);
      *text += ")";
      return;
    case Kind::kFinal:
      *text += "final ";
      Write(vertex.a, text);
      return;
  }
}

std::string SymbolicSums::ToString(SumId sum) const {
  std::string text;
  Write(sum, &text);
  if (text.size() > kSumTextMax) text = text.substr(0, kSumTextMax) + "...";
  return text;
}

}  // namespace weft
