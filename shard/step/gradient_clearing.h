// What gradients hold before anything is added to them: zeros, or of params whose caller writes them, nothing yet.
//
//   clearing.ZeroBucket(bucket, data);              // a bucket's gradients have a place: from here on
//   clearing.BucketBegins(bucket);
//   if (clearing.Unset(param)) ... write all of it ... else ... add to it ...
//   clearing.Written(param);
//
// A param declared with WEFT_SHARD_PARAM_WRITES_GRAD has the first gradient of a step, or of a micro-batch that is reduced by
// itself, written in place of added to zeros. That saves writing the zeros and reading them again. What nobody has written by the
// time its bucket is reduced is zeroed then.
//
// Thread-safety: the functions that zero touch gradients alone, without the mutex; the others are guarded by it.
#pragma once

#include <cstddef>
#include <vector>

#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"

namespace weft {

class GradientClearing {
 public:
  // Both outlive this.
  GradientClearing(const Registry& registry, const Layout& layout);

  // Zeroes what is not written by callers: of all gradients that are whole at rest, or of a bucket that lies at `data`.
  void ZeroWhole(const Storage& storage) const;
  void ZeroBucket(int bucket, std::byte* data) const;

  // What callers write of these is unset from here on.
  void WholeBegins();
  void BucketBegins(int bucket);

  // Whether the param's gradient holds nothing yet.
  bool Unset(int param) const { return unset_[static_cast<size_t>(param)] != 0; }

  void Written(int param) { unset_[static_cast<size_t>(param)] = 0; }

 private:
  struct Bytes {
    size_t begin = 0, count = 0;
  };

  void Begins(const std::vector<int>& params);

  const Layout& layout_;
  std::vector<std::vector<Bytes>> zeroed_spaces_;   // by space; of those that are whole at rest
  std::vector<std::vector<Bytes>> zeroed_buckets_;  // by bucket; of those that are not
  std::vector<std::vector<int>> written_;           // by bucket: the params that callers write
  std::vector<char> unset_;                         // by param
};

}  // namespace weft
