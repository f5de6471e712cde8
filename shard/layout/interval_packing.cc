// Earliest first is nearly always as good as what is alive at a time allows, and takes O(n log n). Largest first is better
// where a few large intervals lie among many small ones, but looks at all pairs that are alive together, so it is
// tried only where the first left something to gain and the pairs are few enough.
#include "shard/layout/interval_packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shard/layout/gaps.h"

namespace weft {
namespace {

int64_t LastOf(const std::vector<Interval>& intervals, int64_t Interval::*key) {
  int64_t last = 0;
  for (const Interval& interval : intervals)
    last = std::max(last, interval.*key);
  return last;
}

// Times are numbers of half steps: where there are about as many intervals, counting is quicker than comparing.
bool AreMany(const std::vector<Interval>& intervals) {
  return static_cast<uint64_t>(LastOf(intervals, &Interval::end)) <= 16 * intervals.size() + 64;
}

// Indices of intervals by their `key`, of several with one as they stand.
std::vector<uint32_t> InOrder(const std::vector<Interval>& intervals, int64_t Interval::*key) {
  std::vector<uint32_t> order(intervals.size());
  if (!AreMany(intervals)) {
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return intervals[a].*key < intervals[b].*key; });
    return order;
  }
  std::vector<uint32_t> next(static_cast<size_t>(LastOf(intervals, key)) + 2, 0);
  for (const Interval& interval : intervals)
    ++next[static_cast<size_t>(interval.*key) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (size_t i = 0; i < intervals.size(); ++i)
    order[next[static_cast<size_t>(intervals[i].*key)]++] = static_cast<uint32_t>(i);
  return order;
}

struct Orders {
  explicit Orders(const std::vector<Interval>& intervals)
      : by_begin(InOrder(intervals, &Interval::begin)),
        by_end(InOrder(intervals, &Interval::end)) {}

  std::vector<uint32_t> by_begin;
  std::vector<uint32_t> by_end;
};

// Follows time: begun(index) for each interval, and ended(index), before others begin after it.
template <typename Begun, typename Ended>
void Follow(const Orders& orders, const std::vector<Interval>& intervals, const Begun& begun,
            const Ended& ended) {
  auto next_end = orders.by_end.begin();
  for (const uint32_t index : orders.by_begin) {
    for (; intervals[*next_end].end < intervals[index].begin; ++next_end)
      ended(*next_end);
    begun(index);
  }
}

// Earliest first: what is free when an interval begins stays free until others begin.
size_t PlaceEarliestFirst(const Orders& orders, std::vector<Interval>& intervals) {
  Gaps gaps;
  size_t bytes = 0;
  Follow(
      orders, intervals,
      [&](uint32_t index) {
        Interval& interval = intervals[index];
        interval.offset = interval.bytes > 0 ? gaps.Take(interval.bytes) : 0;
        bytes = std::max(bytes, interval.offset + interval.bytes);
      },
      [&](uint32_t index) {
        const Interval& interval = intervals[index];
        if (interval.bytes > 0) gaps.GiveBack(interval.offset, interval.bytes);
      });
  return bytes;
}

size_t CountPairs(const Orders& orders, const std::vector<Interval>& intervals) {
  size_t alive = 0;
  size_t pairs = 0;
  Follow(
      orders, intervals, [&](uint32_t) { pairs += alive++; }, [&](uint32_t) { --alive; });
  return pairs;
}

// By interval: those that are alive at a time with it. One list behind the other.
class Contemporaries {
 public:
  Contemporaries(const std::vector<uint32_t>& by_begin, const std::vector<Interval>& intervals)
      : first_(intervals.size() + 1, 0) {
    ForEachPair(by_begin, intervals, [&](uint32_t a, uint32_t b) {
      ++first_[a + 1];
      ++first_[b + 1];
    });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    others_.resize(first_.back());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    ForEachPair(by_begin, intervals, [&](uint32_t a, uint32_t b) {
      others_[next[a]++] = b;
      others_[next[b]++] = a;
    });
  }

  const uint32_t* begin(size_t interval) const { return others_.data() + first_[interval]; }

  const uint32_t* end(size_t interval) const { return others_.data() + first_[interval + 1]; }

 private:
  template <typename Visit>
  static void ForEachPair(const std::vector<uint32_t>& by_begin,
                          const std::vector<Interval>& intervals, const Visit& visit) {
    std::vector<uint32_t> alive;
    for (const uint32_t index : by_begin) {
      std::erase_if(alive,
                    [&](uint32_t other) { return intervals[other].end < intervals[index].begin; });
      for (const uint32_t other : alive)
        visit(other, index);
      alive.push_back(index);
    }
  }

  std::vector<size_t> first_;
  std::vector<uint32_t> others_;
};

size_t PlaceLargestFirst(const std::vector<uint32_t>& by_begin, std::vector<Interval>& intervals) {
  const Contemporaries together(by_begin, intervals);
  std::vector<uint32_t> order = by_begin;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return intervals[a].bytes > intervals[b].bytes; });
  std::vector<bool> placed(intervals.size());
  std::vector<std::pair<size_t, size_t>> taken;
  size_t bytes = 0;
  for (const uint32_t index : order) {
    taken.clear();
    for (const uint32_t* other = together.begin(index); other != together.end(index); ++other) {
      const Interval& at = intervals[*other];
      if (placed[*other]) taken.emplace_back(at.offset, at.offset + at.bytes);
    }
    std::sort(taken.begin(), taken.end());
    Interval& interval = intervals[index];
    interval.offset = 0;
    for (const auto& [begin, end] : taken) {
      if (interval.offset + interval.bytes <= begin) break;
      interval.offset = std::max(interval.offset, end);
    }
    bytes = std::max(bytes, interval.offset + interval.bytes);
    placed[index] = true;
  }
  return bytes;
}

}  // namespace

size_t MostAlive(const std::vector<Interval>& intervals) {
  size_t bytes = 0;
  size_t most = 0;
  if (AreMany(intervals)) {
    std::vector<size_t> change(static_cast<size_t>(LastOf(intervals, &Interval::end)) + 2, 0);
    for (const Interval& interval : intervals) {
      change[static_cast<size_t>(interval.begin)] += interval.bytes;
      change[static_cast<size_t>(interval.end) + 1] -= interval.bytes;
    }
    for (const size_t by : change)
      most = std::max(most, bytes += by);
    return most;
  }
  Follow(
      Orders(intervals), intervals,
      [&](uint32_t index) {
        bytes += intervals[index].bytes;
        most = std::max(most, bytes);
      },
      [&](uint32_t index) { bytes -= intervals[index].bytes; });
  return most;
}

size_t PackIntervals(std::vector<Interval>& intervals, size_t enough) {
  const Orders orders(intervals);
  const size_t earliest_bytes = PlaceEarliestFirst(orders, intervals);
  const size_t least = MostAlive(intervals);
  if (earliest_bytes <= std::max(least, enough)) return earliest_bytes;
  const size_t pairs_max = enough > 0 ? kAskedPairsMax : kPairsMax;
  if (CountPairs(orders, intervals) > pairs_max) return earliest_bytes;
  std::vector<Interval> largest = intervals;
  const size_t largest_bytes = PlaceLargestFirst(orders.by_begin, largest);
  if (largest_bytes >= earliest_bytes) return earliest_bytes;
  intervals = std::move(largest);
  return largest_bytes;
}

}  // namespace weft
