// Where every param lives and which params are reduced together: pure arithmetic on a registry.
//
// Space: all elements of one (dtype, trainability), in declaration order, one array. A unit is one
// interval of each space it has params in, a param one interval of that, starting on 64 bytes.
// Bucket: params whose gradients are reduced together, one contiguous range per dtype. Buckets are
// numbered in the order in which backward completes them, so bucket 0 is the tail of the spaces.
//
//   declaration   | embed ..... | block 0 ... | block 1 ... | head |
//   buckets       |   3   |  2  |      1      |      1      |  0   |
//
// Whole units are merged, last unit first, while they fit into the limit. A unit that alone is
// larger than the limit is cut between its params, so that a model declared as one unit still
// overlaps and the small first bucket really is ready first; a param is never cut, so a bucket is
// larger than its limit only if one param is.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <vector>

#include "weft/types.h"

#include "shard/registry.h"

namespace weft {

constexpr size_t kParamAlignment = 64;

struct BucketLimits {
  size_t bucket_bytes = size_t{25} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;
};

struct Space {
  weft_dtype_t dtype = WEFT_FLOAT32;
  bool frozen = false;
  size_t count = 0;  // elements, padding included
};

struct Range {
  int space = 0;
  size_t begin = 0;  // elements
  size_t count = 0;  // elements, padding included
};

struct Place {
  int space = 0;
  size_t begin = 0;  // element in the space
  int bucket = -1;   // -1: frozen or empty
};

struct Bucket {
  std::vector<Range> ranges;  // one per dtype, by space
  std::vector<int> params;    // in declaration order
  size_t bytes = 0;           // of all ranges
};

struct Layout {
  std::vector<Space> spaces;
  std::vector<Place> places;  // by param
  std::vector<Bucket> buckets;
  std::vector<Range> frozen;  // the frozen spaces, in pieces of about bucket_bytes
  size_t reduced_bytes = 0;   // of all buckets
  size_t data_bytes = 0;      // of all spaces
  size_t data_padding_bytes = 0;
  size_t grad_padding_bytes = 0;
};

Layout MakeLayout(const Registry& registry, const BucketLimits& limits);

}  // namespace weft
