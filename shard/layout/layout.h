// Where every param lives, which params are gathered and reduced together, and which rank owns what: pure
// arithmetic on a registry.
//
// Space: all elements of one (dtype, trainability, placement), in declaration order, one array. A unit is one
// interval of each space it has params in, a param one interval of that, starting at a multiple of
// kCutElements.
// Bucket: params whose gradients are reduced together, one contiguous range per space. Buckets are
// numbered in the order in which backward completes them, so bucket 0 is the tail of the spaces.
//
//   declaration   | embed ..... | block 0 ... | block 1 ... | head |
//   buckets       |   3   |  2  |      1      |      1      |  0   |
//
// Units of one placement are merged, last unit first, while they fit into the limit. A unit that alone
// is larger than the limit is cut between its params, so that a model declared as one unit still
// overlaps and the small first bucket really is ready first; a param is never cut, so a bucket is
// larger than its limit only if one param is. A unit whose params are sharded at rest is one bucket whatever its size.
//
// Extent: a range of a space that is cut between the ranks as one. The ranges of buckets are extents, and
// those of frozen params in units whose params are sharded at rest. What is sharded is stored without gaps: the
// rank's own parts of a space's extents, one behind the other.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <vector>

#include "weft/types.h"

#include "shard/layout/cut.h"
#include "shard/layout/placement.h"
#include "shard/layout/registry.h"

namespace weft {

struct BucketLimits {
  size_t bucket_bytes = size_t{25} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;
};

// A rank among those between which params are cut.
struct Member {
  int rank = 0;
  int size = 1;
};

struct Space {
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_dtype_t grad_dtype = WEFT_FLOAT32;  // of its gradients
  weft_dtype_t wire_dtype = WEFT_FLOAT32;  // in which these are reduced
  bool frozen = false;
  // What this rank owns rests in a file (weft/shard_offload.h), and in memory only while it is unsharded or updated.
  bool offloaded = false;
  Placement placement;
  size_t count = 0;      // elements, padding included
  size_t own_count = 0;  // elements that this rank owns, where they are cut
};

struct Range {
  int space = 0;
  size_t begin = 0;  // elements
  size_t count = 0;  // elements, padding included
};

struct Extent {
  Range range;
  std::vector<size_t> cuts;        // rank r owns [cuts[r], cuts[r + 1]) of the range
  size_t own_begin = 0;            // of this rank's part where it is sharded at rest, in elements
  std::vector<size_t> inner_cuts;  // HPZ: between the ranks of the mesh's last axis
};

struct Place {
  int space = 0;
  size_t begin = 0;  // element in the space
  int bucket = -1;   // -1: frozen or empty
  int extent = -1;   // -1: frozen and unsharded, or empty
};

// Extents that lie in one buffer, one behind the other, while they are unsharded.
struct Pack {
  std::vector<int> extents;
  std::vector<size_t> offsets;  // of each extent in the buffer, in bytes
  size_t bytes = 0;
};

struct Bucket {
  Pack pack;  // one extent per space, by space
  // HYBRID_SHARD: where the float32 sums of 16-bit extents are in the buffer, behind the gradients, in bytes;
  // of the others, where their gradients are.
  std::vector<size_t> sums;
  std::vector<int> params;  // in declaration order
  std::vector<int> units;   // that have params in it, in declaration order
  size_t bytes = 0;         // of gradients, padding included
  size_t wire_bytes = 0;    // as they are reduced
  size_t param_bytes = 0;   // of the params, padding included
};

struct Layout {
  Member member;  // of all ranks
  Member inner;   // of the ranks between which HYBRID_SHARD cuts
  std::vector<Space> spaces;
  std::vector<Extent> extents;
  std::vector<Place> places;  // by param
  std::vector<Bucket> buckets;
  std::vector<Pack>
      units;  // by unit: what is gathered together; empty where params are never sharded
  std::vector<Pack> parts;  // by unit: HPZ's parts, each with room for the largest rank's
  std::vector<Range>
      frozen;  // frozen params that are unsharded at rest, in pieces of about bucket_bytes
  size_t reduced_bytes = 0;  // of all buckets, as they are reduced
  size_t data_bytes = 0;     // of all spaces
  size_t data_padding_bytes = 0;
  size_t grad_padding_bytes = 0;

  const Space& SpaceOf(const Extent& extent) const {
    return spaces[static_cast<size_t>(extent.range.space)];
  }

  // The same for all params of the bucket.
  const Placement& PlacementOf(const Bucket& bucket) const {
    return SpaceOf(extents[static_cast<size_t>(bucket.pack.extents[0])]).placement;
  }

  // Between which ranks an extent is cut.
  const Member& MemberOf(const Extent& extent) const {
    return SpaceOf(extent).placement.replicated ? inner : member;
  }

  size_t OwnCount(const Extent& extent) const {
    const auto rank = static_cast<size_t>(MemberOf(extent).rank);
    return extent.cuts[rank + 1] - extent.cuts[rank];
  }

  // HPZ: this rank's part between forward and backward; where it begins in the range.
  size_t InnerFirst(const Extent& extent) const {
    return extent.inner_cuts[static_cast<size_t>(inner.rank)];
  }

  size_t InnerCount(const Extent& extent) const {
    return extent.inner_cuts[static_cast<size_t>(inner.rank) + 1] - InnerFirst(extent);
  }

  // Index in the space of the first element that this rank owns.
  size_t OwnFirst(const Extent& extent) const {
    return extent.range.begin + extent.cuts[static_cast<size_t>(MemberOf(extent).rank)];
  }
};

// Elements [begin, begin + count) of a param.
struct OwnedElements {
  size_t begin = 0;
  size_t count = 0;
};

// Those of the param of `count` elements at `place` that rank `rank` of the extent's members owns; begin is 0 if it
// owns none.
OwnedElements OwnedBy(const Extent& extent, const Place& place, size_t count, size_t rank);

// `offloads_params`: those that are sharded at rest are offloaded.
Layout MakeLayout(const Registry& registry, const BucketLimits& limits, const Member& member = {},
                  const Member& inner = {}, bool offloads_params = false);

}  // namespace weft
