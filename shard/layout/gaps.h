// The gaps between what lies in a block of memory that has no end: the lowest one that is large enough, and joining
// what is given back with its neighbours, in O(log gaps) each.
//
//   Gaps gaps;
//   const size_t offset = gaps.Take(bytes);
//   gaps.GiveBack(offset, bytes);
//
// A treap by offset, which knows the largest gap below each node; priorities are a hash of the offset, so that equal
// calls give equal offsets on every rank.
//
// Thread-safety: none, a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class Gaps {
 public:
  Gaps();

  // The lowest offset at which `bytes` > 0 are free; they are taken.
  size_t Take(size_t bytes);
  // [offset, offset + bytes) was taken, in one or in parts.
  void GiveBack(size_t offset, size_t bytes);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Node {
    size_t offset = 0;
    size_t bytes = 0;
    size_t largest = 0;  // bytes of the largest gap of this node and those below
    uint32_t priority = 0;
    uint32_t left = kNone;
    uint32_t right = kNone;
  };

  uint32_t New(size_t offset, size_t bytes);
  void Renew(uint32_t node);
  // Cuts the tree: gaps below `offset`, and the others.
  void Split(uint32_t node, size_t offset, uint32_t* below, uint32_t* others);
  uint32_t Join(uint32_t left, uint32_t right);
  // Takes the first node out of a tree that is not empty.
  uint32_t TakeFirst(uint32_t* root);
  void Insert(size_t offset, size_t bytes);
  void Remove(size_t offset);
  // After a change in the last node of the path, or in another one of it.
  void RenewPath();

  std::vector<Node> nodes_;
  std::vector<uint32_t> unused_;
  std::vector<uint32_t> path_;  // of the last search, from the root on
  uint32_t root_ = kNone;
};

}  // namespace weft
