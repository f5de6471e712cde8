// A schedule is made before the step by counting what the step will count. Both use UnitTracker, so what remains here is what
// only a schedule knows: the future. A gather's need ends with the last use of what it brought, and a reduction ends, at
// the latest, when the next backward is served; both are found by looking on.
#include "shard/step/needs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shard/step/unit_tracker.h"

namespace weft {
namespace {

// Follows the calls of a step and notes when params are needed and resharded.
class ParamWalk {
 public:
  explicit ParamWalk(const ScheduleInput& input)
      : input_(input),
        tracker_(*input.units),
        open_(input.units->size(), kClosed),
        used_(input.units->size(), false) {}

  std::vector<Residency> Walk(const std::vector<Event>& events) {
    for (size_t i = 0; i < events.size(); ++i)
      Step(static_cast<int>(i), events[i]);
    return std::move(found_);
  }

 private:
  static constexpr int kClosed = -1;

  void Step(int at, const Event& event) {
    if (event.kind == Event::Kind::kMicrobatchEnd) {
      tracker_.Reset();
      std::fill(open_.begin(), open_.end(), kClosed);
      std::fill(used_.begin(), used_.end(), false);
    }
    if (!event.UsesUnit()) return;
    tracker_.OnCall(event);
    const bool ends = event.kind == Event::Kind::kPostForward ||
                      event.kind == Event::Kind::kPostBackward ||
                      event.kind == Event::Kind::kReshard;
    for (const int used : tracker_.UsedBy(event.index)) {
      if (PackOf(used).bytes == 0) continue;
      Use(at, used);
      if (ends && !tracker_.Of(used).Kept()) OpenOf(used) = kClosed;
    }
  }

  const Pack& PackOf(int unit) const { return input_.layout->units[static_cast<size_t>(unit)]; }

  bool KeptBetween(int unit) const {
    return (*input_.units)[static_cast<size_t>(unit)].placement.kept_between;
  }

  int& OpenOf(int unit) { return open_[static_cast<size_t>(unit)]; }

  void Use(int at, int unit) {
    int& open = OpenOf(unit);
    if (open == kClosed) {
      open = static_cast<int>(found_.size());
      // What is kept from forward to backward stays until the last of several backwards.
      const auto index = static_cast<size_t>(unit);
      const bool kept = used_[index] && KeptBetween(unit);
      found_.push_back({.index = unit, .need = at, .bytes = PackOf(unit).bytes, .kept = kept});
      used_[index] = true;
    }
    found_[static_cast<size_t>(open)].end = TimeOf(at);
  }

  const ScheduleInput& input_;
  UnitTracker tracker_;
  std::vector<int> open_;   // by unit: its residency
  std::vector<bool> used_;  // by unit: in this micro-batch
  std::vector<Residency> found_;
};

// Which calls complete which buckets.
class Completion {
 public:
  Completion(const Layout& layout, const std::vector<Event>& events,
             const std::vector<UnitSpec>& units)
      : layout_(layout), tracker_(units), buckets_of_(units.size()) {
    tracker_.ExpectRuns(RunsOf(events, units));
    for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
      for (const int unit : layout.buckets[bucket].units)
        buckets_of_[static_cast<size_t>(unit)].push_back(bucket);
    }
    Reset();
  }

  // A micro-batch begins.
  void Reset() {
    tracker_.Reset();
    units_left_.clear();
    for (const Bucket& bucket : layout_.buckets)
      units_left_.push_back(bucket.units.size());
  }

  // Calls completed(bucket) for those that this completes.
  template <typename Completed>
  void OnCall(const Event& event, const Completed& completed) {
    tracker_.OnCall(event);
    if (event.kind != Event::Kind::kPostBackward) return;
    for (const int used : tracker_.UsedBy(event.index)) {
      if (tracker_.Of(used).phase != UnitTracker::Phase::kDone) continue;
      for (const size_t bucket : buckets_of_[static_cast<size_t>(used)]) {
        if (--units_left_[bucket] == 0) completed(bucket);
      }
    }
  }

  bool Complete(size_t bucket) const { return units_left_[bucket] == 0; }

 private:
  const Layout& layout_;
  UnitTracker tracker_;
  std::vector<std::vector<size_t>> buckets_of_;  // by unit
  std::vector<size_t> units_left_;               // by bucket
};

// Notes when the gradients of buckets that are cut are needed, and when they have been reduced.
class GradientWalk {
 public:
  GradientWalk(const ScheduleInput& input, const std::vector<Event>& events,
               const std::vector<int>& order)
      : input_(input),
        events_(events),
        order_(order),
        completion_(*input.layout, events, *input.units),
        buckets_(input.layout->buckets.size()),
        buckets_of_(input.units->size()),
        last_(static_cast<int>(events.size()) - 1) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const Bucket& bucket = input.layout->buckets[i];
      buckets_[i].cut = input.layout->PlacementOf(bucket).gradients_sharded;
      if (!buckets_[i].cut) continue;
      for (const int unit : bucket.units)
        buckets_of_[static_cast<size_t>(unit)].push_back(static_cast<int>(i));
    }
  }

  std::vector<Residency> Walk() {
    if (!input_.train) return {};
    for (int at = 0; at <= last_; ++at)
      Step(at, events_[static_cast<size_t>(at)]);
    return std::move(found_);
  }

 private:
  struct State {
    bool cut = false;
    int open = -1;  // its residency
  };

  void Step(int at, const Event& event) {
    completion_.OnCall(event, [](size_t) {});
    switch (event.kind) {
      case Event::Kind::kMicrobatchBegin:
        reduces_ = input_.reduces_every || event.index == 1;
        completion_.Reset();
        next_ = 0;
        return;
      case Event::Kind::kPreBackward:
        for (const int used : (*input_.units)[static_cast<size_t>(event.index)].used) {
          for (const int bucket : buckets_of_[static_cast<size_t>(used)])
            Need(at, bucket);
        }
        return;
      case Event::Kind::kPostBackward:
        if (reduces_ && input_.overlap) StartReductions(at, /*all=*/false);
        return;
      case Event::Kind::kMicrobatchEnd:
        if (reduces_) StartReductions(at, /*all=*/true);
        return;
      default:
        return;
    }
  }

  // One that is complete before its predecessors waits for them.
  void StartReductions(int at, bool all) {
    while (next_ < order_.size()) {
      const int bucket = order_[next_];
      if (!all && !completion_.Complete(static_cast<size_t>(bucket))) return;
      ++next_;
      if (!buckets_[static_cast<size_t>(bucket)].cut) continue;
      Need(at, bucket);
      if (at != reduced_at_) reduced_ = Reduced(at);
      reduced_at_ = at;
      Reduce(reduced_, bucket);
    }
  }

  void Need(int at, int bucket) {
    int& open = buckets_[static_cast<size_t>(bucket)].open;
    if (open >= 0) return;
    open = static_cast<int>(found_.size());
    found_.push_back({.index = bucket,
                      .need = at,
                      .begin = TimeOf(at),
                      .end = TimeOf(last_),
                      .bytes = input_.layout->buckets[static_cast<size_t>(bucket)].pack.bytes});
  }

  void Reduce(int64_t end, int bucket) {
    State& state = buckets_[static_cast<size_t>(bucket)];
    found_[static_cast<size_t>(state.open)].end = end;
    state.open = -1;
  }

  // The latest time at which a reduction ends that event `at` starts: the next backward of the micro-batch is
  // served, or the micro-batch is folded.
  int64_t Reduced(int at) const {
    bool same = events_[static_cast<size_t>(at)].kind != Event::Kind::kMicrobatchEnd;
    if (!same && !input_.overlap && at + 1 < last_) return TimeOf(at);
    for (int i = at + 1; i < last_; ++i) {
      const Event::Kind kind = events_[static_cast<size_t>(i)].kind;
      if (kind == Event::Kind::kPreBackward) return same ? TimeOf(i) : TimeAfter(i - 1);
      if (kind != Event::Kind::kMicrobatchEnd) continue;
      if (!same) return TimeAfter(i - 1);
      same = false;
    }
    return TimeOf(last_);
  }

  const ScheduleInput& input_;
  const std::vector<Event>& events_;
  const std::vector<int>& order_;
  Completion completion_;
  std::vector<State> buckets_;
  std::vector<std::vector<int>> buckets_of_;  // by unit; those whose gradients are cut
  std::vector<Residency> found_;
  size_t next_ = 0;      // of order_: the first that is not reduced in this micro-batch
  int last_ = 0;         // event
  int reduced_at_ = -1;  // the event for which `reduced_` is known
  int64_t reduced_ = 0;
  bool reduces_ = true;
};

}  // namespace

std::vector<Residency> ParamNeeds(const ScheduleInput& input, const std::vector<Event>& events) {
  return ParamWalk(input).Walk(events);
}

std::vector<int> ReductionOrder(const ScheduleInput& input, const std::vector<Event>& events) {
  const size_t buckets = input.layout->buckets.size();
  Completion completion(*input.layout, events, *input.units);
  std::vector<size_t> completed(buckets, events.size());
  for (size_t at = 0; at < events.size(); ++at) {
    if (events[at].kind == Event::Kind::kMicrobatchBegin) {
      completion.Reset();
      std::fill(completed.begin(), completed.end(), events.size());
    }
    completion.OnCall(events[at], [&](size_t bucket) { completed[bucket] = at; });
  }
  std::vector<int> order(buckets);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return completed[static_cast<size_t>(a)] < completed[static_cast<size_t>(b)];
  });
  return order;
}

std::vector<Residency> GradientNeeds(const ScheduleInput& input, const std::vector<Event>& events,
                                     const std::vector<int>& order) {
  return GradientWalk(input, events, order).Walk();
}

}  // namespace weft
