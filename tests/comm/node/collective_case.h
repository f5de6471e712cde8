// One collective, run by every rank of a group and compared bitwise with a reference.
//
//   const CollectiveCase c{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 1021};
//   EXPECT_EQ(RunCase(*group, c, LocalChoice::FromSeed(seed, rank)), "");
//
// Inputs are functions of (seed, rank, index), so every rank knows what all ranks hold. Buffers are
// surrounded by canaries.
#pragma once

#include <cstdint>
#include <string>

#include "comm/group/process_group.h"

namespace weft::test {

struct CollectiveCase {
  OpKind kind = OpKind::kAllReduce;
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_op_t op = WEFT_SUM;
  int root = 0;
  size_t count = 0;
  uint64_t seed = 1;

  std::string Name() const;
};

// What a rank may choose for itself without the others knowing.
struct LocalChoice {
  bool in_place = false;
  bool asynchronous = false;
  bool heap_in = false;
  bool heap_out = false;
  size_t misalignment_in = 0;  // elements
  size_t misalignment_out = 0;

  static LocalChoice FromSeed(uint64_t seed, int rank);
};

// "" or what is wrong.
std::string RunCase(ProcessGroup& group, const CollectiveCase& test, const LocalChoice& choice);

}  // namespace weft::test
