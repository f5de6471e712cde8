// A step of ten thousand units and eight micro-batches places some hundred thousand residencies. A list of gaps made that
// quadratic; a treap by offset, in which each node knows the largest gap below it, finds the lowest one that is large enough
// in O(log n). Its shape depends on offsets alone, because every rank has to find the same places.
#include "shard/layout/gaps.h"

#include <algorithm>

#include "base/check.h"
#include "comm/group/number_hash.h"

namespace weft {
namespace {

constexpr size_t kEndless = SIZE_MAX / 2;

}  // namespace

Gaps::Gaps() : root_(New(0, kEndless)) {}

uint32_t Gaps::New(size_t offset, size_t bytes) {
  NumberHash hash;
  hash.Add(offset);
  const Node node{.offset = offset, .bytes = bytes, .largest = bytes, .priority = hash.Get32()};
  if (unused_.empty()) {
    nodes_.push_back(node);
    return static_cast<uint32_t>(nodes_.size()) - 1;
  }
  const uint32_t index = unused_.back();
  unused_.pop_back();
  nodes_[index] = node;
  return index;
}

void Gaps::Renew(uint32_t index) {
  Node& node = nodes_[index];
  node.largest = node.bytes;
  for (const uint32_t below : {node.left, node.right}) {
    if (below != kNone) node.largest = std::max(node.largest, nodes_[below].largest);
  }
}

void Gaps::Split(uint32_t node, size_t offset, uint32_t* below, uint32_t* others) {
  if (node == kNone) {
    *below = *others = kNone;
    return;
  }
  uint32_t cut = kNone;
  if (nodes_[node].offset < offset) {
    Split(nodes_[node].right, offset, &cut, others);
    nodes_[node].right = cut;
    *below = node;
  } else {
    Split(nodes_[node].left, offset, below, &cut);
    nodes_[node].left = cut;
    *others = node;
  }
  Renew(node);
}

uint32_t Gaps::Join(uint32_t left, uint32_t right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  if (nodes_[left].priority >= nodes_[right].priority) {
    nodes_[left].right = Join(nodes_[left].right, right);
    Renew(left);
    return left;
  }
  nodes_[right].left = Join(left, nodes_[right].left);
  Renew(right);
  return right;
}

uint32_t Gaps::TakeFirst(uint32_t* root) {
  uint32_t first = *root;
  while (nodes_[first].left != kNone)
    first = nodes_[first].left;
  uint32_t rest = kNone;
  Split(*root, nodes_[first].offset + 1, &first, &rest);
  *root = rest;
  return first;
}

void Gaps::RenewPath() {
  for (size_t i = path_.size(); i > 0; --i)
    Renew(path_[i - 1]);
}

void Gaps::Remove(size_t offset) {
  uint32_t below = kNone;
  uint32_t others = kNone;
  Split(root_, offset, &below, &others);
  unused_.push_back(TakeFirst(&others));
  root_ = Join(below, others);
}

void Gaps::Insert(size_t offset, size_t bytes) {
  uint32_t below = kNone;
  uint32_t others = kNone;
  Split(root_, offset, &below, &others);
  root_ = Join(Join(below, New(offset, bytes)), others);
}

// Most often a gap shrinks or grows where it is.
size_t Gaps::Take(size_t bytes) {
  uint32_t found = root_;
  WEFT_CHECK(found != kNone && nodes_[found].largest >= bytes);
  path_.clear();
  for (;;) {
    path_.push_back(found);
    const Node& node = nodes_[found];
    if (node.left != kNone && nodes_[node.left].largest >= bytes) {
      found = node.left;
    } else if (node.bytes >= bytes) {
      break;
    } else {
      found = node.right;
    }
  }
  Node& node = nodes_[found];
  const size_t offset = node.offset;
  if (node.bytes == bytes) {
    Remove(offset);
    return offset;
  }
  node.offset += bytes;
  node.bytes -= bytes;
  RenewPath();
  return offset;
}

void Gaps::GiveBack(size_t offset, size_t bytes) {
  uint32_t before = kNone;
  uint32_t after = kNone;
  path_.clear();
  for (uint32_t at = root_; at != kNone;) {
    path_.push_back(at);
    const bool below = nodes_[at].offset < offset;
    (below ? before : after) = at;
    at = below ? nodes_[at].right : nodes_[at].left;
  }
  const bool joins_before =
      before != kNone && nodes_[before].offset + nodes_[before].bytes == offset;
  const bool joins_after = after != kNone && nodes_[after].offset == offset + bytes;
  if (joins_before && joins_after) {
    const size_t more = nodes_[after].bytes;
    Remove(offset + bytes);
    GiveBack(offset, bytes + more);
  } else if (joins_before) {
    nodes_[before].bytes += bytes;
    RenewPath();
  } else if (joins_after) {
    nodes_[after].offset = offset;
    nodes_[after].bytes += bytes;
    RenewPath();
  } else {
    Insert(offset, bytes);
  }
}

}  // namespace weft
