// What a context keeps from step to step: parameters, gradients and accumulated gradients.
//
// Each space of the layout is one block per role: the whole space, or what this rank owns of it where the
// role is sharded at rest, so that in the symmetric heap peers on the node read and reduce ranges of it in place.
// Accumulated gradients exist only when reduced values of several micro-batches are added up (REDUCE_EVERY,
// INNER_EVERY_OUTER_LAST); they are as large as what a reduction leaves on this rank.
//
// Thread-safety: constant after Allocate; who may write which range is the context's affair. Gives
// all blocks back in the destructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/layout/layout.h"

namespace weft {

// What is added up over micro-batches.
enum class Accumulate : uint8_t {
  kNothing,
  kReduced,         // reduced gradients
  kSumsOfReplicas,  // of replicated spaces what is not rounded and divided yet
};

// Elements that lie side by side.
struct Part {
  std::byte* data = nullptr;
  size_t count = 0;
};

// What a space takes of each role, in bytes.
struct SpaceBytes {
  size_t data = 0;
  size_t grads = 0;
  size_t accumulated = 0;
};

SpaceBytes SpaceBytesOf(const Space& space, Accumulate accumulate);

class Storage {
 public:
  Storage() = default;
  // OUT_OF_MEMORY says for what and how much. `layout` outlives this.
  static absl::StatusOr<Storage> Allocate(const Layout& layout, Accumulate accumulate,
                                          const BlockSource& source = {});

  // First byte of element `begin` of a space that is unsharded at rest in that role.
  std::byte* Data(int space, size_t begin) const { return At(data_, space, begin); }

  std::byte* Grad(int space, size_t begin) const {
    return grads_[static_cast<size_t>(space)].data() +
           begin * grad_element_bytes_[static_cast<size_t>(space)];
  }

  // What this rank owns of the params of an extent, where they rest; nullptr as data if they are offloaded.
  Part OwnParams(const Layout& layout, const Extent& extent) const;
  // What a reduction of the extent leaves on this rank, where it rests: all of it, or its own part.
  Part Reduced(const Layout& layout, const Extent& extent) const;
  // What was accumulated of the same elements.
  std::byte* Accumulated(const Layout& layout, const Extent& extent) const;

  // Bytes of parameters, and of gradients, accumulated ones included.
  size_t data_bytes() const;
  size_t grad_bytes() const;

 private:
  std::byte* At(const std::vector<Block>& blocks, int space, size_t begin) const {
    return blocks[static_cast<size_t>(space)].data() +
           begin * element_bytes_[static_cast<size_t>(space)];
  }

  std::vector<Block> data_;  // all by space
  std::vector<Block> grads_;
  std::vector<Block> accumulated_;
  std::vector<size_t> element_bytes_;
  std::vector<size_t> grad_element_bytes_;
  std::vector<size_t> accumulated_element_bytes_;
};

}  // namespace weft
