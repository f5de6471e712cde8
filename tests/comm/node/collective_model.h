// What a collective of a test case means: which blocks every rank has, where they lie, what they hold
// and what must come out. Computed from the case alone, not by the code that is tested.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_case.h"
#include "comm/group/block_layout.h"
#include "comm/kernels/reduce_arguments.h"
#include "comm/kernels/reduce_stage.h"

namespace weft::test {

// Elements [begin, begin + count) of a block, at element `at` of the buffer.
struct Piece {
  int block;
  size_t begin;
  size_t count;
  size_t at;
};

// One side of a rank's call.
struct Side {
  std::vector<size_t> counts;   // of each block
  std::vector<size_t> offsets;  // of each block; iov forms have none
  std::vector<Piece> pieces;
  size_t extent = 0;  // elements of the buffer
};

class CollectiveModel {
 public:
  CollectiveModel(const CollectiveCase& test, int size);

  // The sides as `rank` passes them.
  Side In(int rank) const;
  Side Out(int rank) const;
  // Where in begins in a common buffer, and out, in elements, when `rank` works in place.
  size_t InPlaceIn(int rank) const;
  size_t InPlaceOut(int rank) const;

  bool HasInput(int rank) const;
  bool HasOutput(int rank) const;
  bool CanBeInPlace(int rank) const;
  bool IsVector() const;
  bool IsIov() const;

  // What `rank` holds in its block `block`, and what block `block` of its result must be.
  std::vector<char> Input(int rank, int block) const;
  std::vector<char> Expected(int rank, int block) const;

  // Bytes of an element; what `rank` passes if the reduction is one made at run time, else nullptr.
  size_t element() const;
  std::shared_ptr<const CustomOp> Custom(int rank) const;

  const std::vector<size_t>& part_counts() const { return part_counts_; }

 private:
  size_t ValuesPerElement() const;
  size_t InCount(int rank, int block) const;
  size_t OutCount(int rank, int block) const;
  // Elements that `from` sends to `to` in the exchanges.
  size_t Sent(int from, int to) const;
  size_t Shared(int rank) const;
  Side Make(int rank, bool in) const;
  void Add(ReduceStage stage, const ReduceArguments& arguments) const;

  CollectiveCase test_;
  int size_;
  std::vector<size_t> part_counts_;
};

}  // namespace weft::test
