// The memory of a context: parameters, gradients and accumulated gradients, in the symmetric heap.
//
// Each space of the layout is one heap block per role, so a bucket's gradients are one range that
// peers on the node can reduce in place. Accumulated gradients exist only when reduced values of
// several micro-batches are added up (REDUCE_EVERY); they cost the gradients' bytes once more.
//
// Thread-safety: constant after Allocate; who may write which range is the context's affair. Gives
// all blocks back in the destructor.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/layout.h"

namespace weft {

// One block of the process's heap; empty when moved from or made of 0 bytes.
class HeapBlock {
 public:
  static absl::StatusOr<HeapBlock> Allocate(size_t bytes);
  HeapBlock() = default;
  ~HeapBlock();
  HeapBlock(HeapBlock&& other) noexcept;
  HeapBlock& operator=(HeapBlock&& other) noexcept;

  std::byte* data() const { return data_; }

  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class Storage {
 public:
  Storage() = default;
  // OUT_OF_MEMORY says for what and how much.
  static absl::StatusOr<Storage> Allocate(const Layout& layout, bool accumulate);

  // First byte of element `begin`; Grad and Accumulated of trainable spaces only.
  std::byte* Data(int space, size_t begin) const { return At(data_, space, begin); }

  std::byte* Grad(int space, size_t begin) const { return At(grads_, space, begin); }

  std::byte* Accumulated(int space, size_t begin) const { return At(accumulated_, space, begin); }

  void ZeroGradients() const;

  // Bytes of gradients, accumulated ones included.
  size_t grad_bytes() const;

 private:
  std::byte* At(const std::vector<HeapBlock>& blocks, int space, size_t begin) const {
    return blocks[static_cast<size_t>(space)].data() +
           begin * element_bytes_[static_cast<size_t>(space)];
  }

  std::vector<HeapBlock> data_;  // all by space
  std::vector<HeapBlock> grads_;
  std::vector<HeapBlock> accumulated_;
  std::vector<size_t> element_bytes_;
};

}  // namespace weft
