#include "shard/step/gradient_clearing.h"

#include <algorithm>
#include <cstring>

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

struct Interval {
  size_t begin = 0, end = 0;
};

// What is left of `bytes` without the intervals, which do not overlap.
template <typename Bytes>
std::vector<Bytes> Without(std::vector<Interval> intervals, size_t bytes) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Bytes> left;
  size_t begin = 0;
  for (const Interval& interval : intervals) {
    if (interval.begin > begin) left.push_back({begin, interval.begin - begin});
    begin = interval.end;
  }
  if (bytes > begin) left.push_back({begin, bytes - begin});
  return left;
}

// Where the extent of a param begins in the buffer of its bucket, in bytes.
size_t OffsetOf(const Pack& pack, int extent) {
  const auto found = std::find(pack.extents.begin(), pack.extents.end(), extent);
  return pack.offsets[static_cast<size_t>(found - pack.extents.begin())];
}

}  // namespace

GradientClearing::GradientClearing(const Registry& registry, const Layout& layout)
    : layout_(layout),
      zeroed_spaces_(layout.spaces.size()),
      zeroed_buckets_(layout.buckets.size()),
      written_(layout.buckets.size()),
      unset_(registry.params().size()) {
  std::vector<std::vector<Interval>> in_spaces(layout.spaces.size());
  std::vector<std::vector<Interval>> in_buckets(layout.buckets.size());
  for (size_t param = 0; param < registry.params().size(); ++param) {
    const ParamSpec& spec = registry.params()[param];
    const Place& place = layout.places[param];
    if (!spec.writes_grad || place.bucket < 0) continue;
    const auto bucket = static_cast<size_t>(place.bucket);
    const auto space = static_cast<size_t>(place.space);
    const size_t size = DtypeSize(layout.spaces[space].grad_dtype);
    written_[bucket].push_back(static_cast<int>(param));
    in_spaces[space].push_back({place.begin * size, (place.begin + spec.count) * size});
    const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
    const size_t begin = OffsetOf(layout.buckets[bucket].pack, place.extent) +
                         (place.begin - extent.range.begin) * size;
    in_buckets[bucket].push_back({begin, begin + spec.count * size});
  }
  for (size_t i = 0; i < layout.spaces.size(); ++i) {
    const Space& space = layout.spaces[i];
    if (space.frozen || space.placement.gradients_sharded) continue;
    zeroed_spaces_[i] =
        Without<Bytes>(std::move(in_spaces[i]), space.count * DtypeSize(space.grad_dtype));
  }
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    zeroed_buckets_[i] = Without<Bytes>(std::move(in_buckets[i]), layout.buckets[i].bytes);
  }
}

void GradientClearing::ZeroWhole(const Storage& storage) const {
  for (size_t i = 0; i < zeroed_spaces_.size(); ++i) {
    for (const Bytes& bytes : zeroed_spaces_[i])
      std::memset(storage.Grad(static_cast<int>(i), 0) + bytes.begin, 0, bytes.count);
  }
}

void GradientClearing::ZeroBucket(int bucket, std::byte* data) const {
  for (const Bytes& bytes : zeroed_buckets_[static_cast<size_t>(bucket)])
    std::memset(data + bytes.begin, 0, bytes.count);
}

void GradientClearing::WholeBegins() {
  for (size_t i = 0; i < written_.size(); ++i) {
    if (!layout_.PlacementOf(layout_.buckets[i]).gradients_sharded) Begins(written_[i]);
  }
}

void GradientClearing::BucketBegins(int bucket) {
  Begins(written_[static_cast<size_t>(bucket)]);
}

void GradientClearing::Begins(const std::vector<int>& params) {
  for (const int param : params)
    unset_[static_cast<size_t>(param)] = 1;
}

}  // namespace weft
