#include "shard/layout.h"

#include <algorithm>

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

size_t PaddedCount(const ParamSpec& param) {
  const size_t per_line = kParamAlignment / DtypeSize(param.dtype);
  return (param.count + per_line - 1) / per_line * per_line;
}

size_t PaddedBytes(const ParamSpec& param) {
  return PaddedCount(param) * DtypeSize(param.dtype);
}

int SpaceFor(std::vector<Space>& spaces, const ParamSpec& param) {
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].dtype == param.dtype && spaces[i].frozen == param.frozen) {
      return static_cast<int>(i);
    }
  }
  spaces.push_back({.dtype = param.dtype, .frozen = param.frozen});
  return static_cast<int>(spaces.size()) - 1;
}

void PlaceParams(const std::vector<ParamSpec>& params, Layout& layout) {
  for (const ParamSpec& param : params) {
    const int space_index = SpaceFor(layout.spaces, param);
    Space& space = layout.spaces[static_cast<size_t>(space_index)];
    layout.places.push_back({.space = space_index, .begin = space.count});
    space.count += PaddedCount(param);
    const size_t padding = PaddedBytes(param) - param.count * DtypeSize(param.dtype);
    layout.data_bytes += PaddedBytes(param);
    layout.data_padding_bytes += padding;
    if (!param.frozen) layout.grad_padding_bytes += padding;
  }
}

// Collects params last to first into lists, one per bucket.
class BucketCutter {
 public:
  BucketCutter(const std::vector<ParamSpec>& params, const BucketLimits& limits)
      : params_(params), limits_(limits) {}

  void AddUnit(const UnitSpec& unit) {
    const size_t unit_bytes = BytesOf(unit);
    CloseUnlessRoomFor(unit_bytes);
    const bool cut = unit_bytes > Limit();
    for (int i = unit.param_count - 1; i >= 0; --i) {
      const int index = unit.first_param + i;
      if (!Reduced(index)) continue;
      const size_t bytes = PaddedBytes(params_[static_cast<size_t>(index)]);
      if (cut) CloseUnlessRoomFor(bytes);
      open_.push_back(index);
      open_bytes_ += bytes;
    }
  }

  std::vector<std::vector<int>> Finish() {
    Close();
    return std::move(closed_);
  }

 private:
  bool Reduced(int index) const {
    const ParamSpec& param = params_[static_cast<size_t>(index)];
    return !param.frozen && param.count > 0;
  }

  size_t BytesOf(const UnitSpec& unit) const {
    size_t bytes = 0;
    for (int i = 0; i < unit.param_count; ++i) {
      const int index = unit.first_param + i;
      if (Reduced(index)) bytes += PaddedBytes(params_[static_cast<size_t>(index)]);
    }
    return bytes;
  }

  size_t Limit() const {
    return closed_.empty() ? limits_.first_bucket_bytes : limits_.bucket_bytes;
  }

  void CloseUnlessRoomFor(size_t bytes) {
    if (open_bytes_ + bytes > Limit()) Close();
  }

  void Close() {
    if (open_.empty()) return;
    std::reverse(open_.begin(), open_.end());
    closed_.push_back(std::move(open_));
    open_.clear();
    open_bytes_ = 0;
  }

  const std::vector<ParamSpec>& params_;
  const BucketLimits limits_;
  std::vector<std::vector<int>> closed_;
  std::vector<int> open_;
  size_t open_bytes_ = 0;
};

// The params of a bucket are neighbours in every space, so first and last make the range.
Bucket MakeBucket(const std::vector<ParamSpec>& params, std::vector<int> members,
                  const Layout& layout) {
  Bucket bucket;
  for (size_t s = 0; s < layout.spaces.size(); ++s) {
    Range range{.space = static_cast<int>(s)};
    for (const int member : members) {
      const Place& place = layout.places[static_cast<size_t>(member)];
      if (place.space != static_cast<int>(s)) continue;
      if (range.count == 0) range.begin = place.begin;
      range.count = place.begin + PaddedCount(params[static_cast<size_t>(member)]) - range.begin;
    }
    if (range.count == 0) continue;
    bucket.ranges.push_back(range);
    bucket.bytes += range.count * DtypeSize(layout.spaces[s].dtype);
  }
  bucket.params = std::move(members);
  return bucket;
}

// Cuts the frozen spaces between params into pieces of at most `bytes_max`, or one param.
std::vector<Range> CutFrozen(const std::vector<ParamSpec>& params, const Layout& layout,
                             size_t bytes_max) {
  std::vector<Range> ranges;
  std::vector<int> open(layout.spaces.size(), -1);  // the range that grows, by space
  for (size_t i = 0; i < params.size(); ++i) {
    if (!params[i].frozen || params[i].count == 0) continue;
    const Place& place = layout.places[i];
    int& grows = open[static_cast<size_t>(place.space)];
    const size_t count = PaddedCount(params[i]);
    const bool fits = grows >= 0 && (ranges[static_cast<size_t>(grows)].count + count) *
                                            DtypeSize(params[i].dtype) <=
                                        bytes_max;
    if (!fits) {
      grows = static_cast<int>(ranges.size());
      ranges.push_back({.space = place.space, .begin = place.begin});
    }
    ranges[static_cast<size_t>(grows)].count += count;
  }
  return ranges;
}

}  // namespace

Layout MakeLayout(const Registry& registry, const BucketLimits& limits) {
  const std::vector<ParamSpec>& params = registry.params();
  Layout layout;
  PlaceParams(params, layout);
  BucketCutter cutter(params, limits);
  for (auto unit = registry.units().rbegin(); unit != registry.units().rend(); ++unit) {
    cutter.AddUnit(*unit);
  }
  for (std::vector<int>& members : cutter.Finish()) {
    const int index = static_cast<int>(layout.buckets.size());
    for (const int member : members)
      layout.places[static_cast<size_t>(member)].bucket = index;
    layout.buckets.push_back(MakeBucket(params, std::move(members), layout));
    layout.reduced_bytes += layout.buckets.back().bytes;
  }
  layout.frozen = CutFrozen(params, layout, limits.bucket_bytes);
  return layout;
}

}  // namespace weft
