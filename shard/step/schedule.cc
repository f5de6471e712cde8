// A schedule is made in passes, each of which knows less than it would like to. Walks over the calls (needs.h) find when params
// and gradients are needed; prefetching moves the begin of gathers forward, and joins residencies that then touch; a budget
// may take prefetching away again, or pay for bridging gaps; packing finds the places at last. Passes that depend on the
// outcome of packing (does it fit?) ask it with bisection, since it is the costly one.
#include "shard/step/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "shard/layout/interval_packing.h"
#include "shard/step/needs.h"
#include "shard/step/repeat.h"

namespace weft {
namespace {

using Kind = Event::Kind;

constexpr size_t kNone = ~size_t{0};

size_t UnitLimit(const std::vector<Residency>& gathers) {
  int most = -1;
  for (const Residency& one : gathers)
    most = std::max(most, one.index);
  return static_cast<size_t>(most + 1);
}

// By residency: the unit's next one, or their number.
std::vector<size_t> NextOfUnits(const std::vector<Residency>& gathers) {
  std::vector<size_t> next(gathers.size());
  std::vector<size_t> later(UnitLimit(gathers), gathers.size());
  for (size_t i = gathers.size(); i > 0; --i) {
    const auto unit = static_cast<size_t>(gathers[i - 1].index);
    next[i - 1] = std::exchange(later[unit], i - 1);
  }
  return next;
}

// Joins residencies of a unit where `joins(i, before, kept)`, which is asked of each in turn: of the list's number i, the unit's
// residency before it, kNone if there is none, and how many are before it with all that was joined.
template <typename Joins>
void JoinWhere(std::vector<Residency>& gathers, const Joins& joins) {
  std::vector<size_t> latest(UnitLimit(gathers), kNone);  // by unit: its last one that stays
  size_t kept = 0;
  for (size_t i = 0; i < gathers.size(); ++i) {
    Residency& next = gathers[i];
    size_t& before = latest[static_cast<size_t>(next.index)];
    if (joins(i, before, kept) && before != kNone) {
      gathers[before].end = next.end;
      continue;
    }
    before = kept;
    if (i != kept) gathers[kept] = std::move(next);
    ++kept;
  }
  gathers.resize(kept);
}

// Which residency lay last at each byte, by its number in a list.
class LastAtBytes {
 public:
  void Put(size_t begin, size_t end, int index) {
    if (begin == end) return;
    Split(begin);
    Split(end);
    from_.erase(from_.lower_bound(begin), from_.lower_bound(end));
    from_[begin] = index;
  }

  // Ascending.
  std::vector<int> Between(size_t begin, size_t end) const {
    std::set<int> found;
    for (auto range = std::prev(from_.upper_bound(begin));
         range != from_.end() && range->first < end; ++range) {
      if (range->second != kNobody) found.insert(range->second);
    }
    return {found.begin(), found.end()};
  }

 private:
  static constexpr int kNobody = -1;

  void Split(size_t at) { from_.emplace(at, std::prev(from_.upper_bound(at))->second); }

  std::map<size_t, int> from_ = {{0, kNobody}};  // by first byte of a range; it reaches to the next
};

// The places that units have to keep to, and who lay there last.
class Occupants {
 public:
  // `places` may be nullptr: then there is nobody.
  explicit Occupants(const FixedPlaces* places) : places_(places) {}

  // Numbers in the list.
  std::vector<int> Before(const Residency& one) const {
    if (places_ == nullptr) return {};
    const size_t begin = OffsetOf(one);
    return last_.Between(begin, begin + one.bytes);
  }

  void Put(const Residency& one, size_t number) {
    if (places_ == nullptr) return;
    const size_t begin = OffsetOf(one);
    last_.Put(begin, begin + one.bytes, static_cast<int>(number));
  }

 private:
  size_t OffsetOf(const Residency& one) const {
    return places_->offsets[static_cast<size_t>(one.index)];
  }

  const FixedPlaces* places_;
  LastAtBytes last_;
};

// By residency: another unit needs the place between it and the unit's residency before.
std::vector<bool> InterruptedBefore(const FixedPlaces* places,
                                    const std::vector<Residency>& gathers) {
  std::vector<bool> interrupted(gathers.size(), false);
  Occupants occupants(places);
  for (size_t i = 0; i < gathers.size(); ++i) {
    for (const int other : occupants.Before(gathers[i])) {
      if (gathers[static_cast<size_t>(other)].index != gathers[i].index) interrupted[i] = true;
    }
    occupants.Put(gathers[i], i);
  }
  return interrupted;
}

// What is to stay unsharded between two uses does, unless another unit needs the place.
void JoinKept(const FixedPlaces* places, std::vector<Residency>& gathers) {
  const std::vector<bool> interrupted = InterruptedBefore(places, gathers);
  JoinWhere(gathers, [&](size_t i, size_t, size_t) { return gathers[i].kept && !interrupted[i]; });
}

// Resharding a unit that is the next to be gathered saves nothing.
void JoinNeighbours(std::vector<Residency>& gathers) {
  JoinWhere(gathers, [](size_t, size_t before, size_t kept) { return before + 1 == kept; });
}

// When a prefetch may begin that comes with the need of event `need`. In forward just before that call, when the
// unit before has been resharded: then the call finds nothing to do. In backward after it, when the gradients
// that the call needs have their place.
int64_t With(const std::vector<Event>& events, int need) {
  const Kind kind = events[static_cast<size_t>(need)].kind;
  const bool forward = kind == Kind::kPreForward || kind == Kind::kUnshard;
  return forward && need > 0 ? TimeAfter(need - 1) : TimeAfter(need);
}

// Finds when each gather begins, and joins residencies of a unit that are not over when its next one begins. Both depend
// on what comes before, with all that was joined, only.
void PlacePrefetches(int prefetch, const std::vector<Event>& events, const FixedPlaces* places,
                     std::vector<Residency>& gathers) {
  const auto ahead = static_cast<size_t>(prefetch);
  Occupants occupants(places);
  int64_t latest = 0;  // gathers start one behind the other
  JoinWhere(gathers, [&](size_t i, size_t before, size_t kept) {
    Residency& next = gathers[i];
    next.begin = TimeOf(next.need);
    // What the program gathers itself begins when it says so.
    const bool asked = events[static_cast<size_t>(next.need)].kind == Kind::kUnshard;
    if (ahead > 0 && !asked) {
      const int64_t begin = kept < ahead ? 0 : With(events, gathers[kept - ahead].need);
      next.begin = std::min(begin, next.begin);
    }
    for (const int other : occupants.Before(next)) {
      const Residency& there = gathers[static_cast<size_t>(other)];
      if (there.index != next.index) next.begin = std::max(next.begin, there.end + 1);
    }
    next.begin = std::max(next.begin, latest);
    if (before != kNone && next.begin <= gathers[before].end) return true;
    occupants.Put(next, kept);
    latest = next.begin;
    return false;
  });
}

// Those before them were waited for when these were placed. Params with fixed places do not lie where gradients do.
void FindPredecessors(bool fixed, Schedule& schedule) {
  const size_t gathers = fixed ? 0 : schedule.gathers.size();
  std::vector<size_t> order(gathers + schedule.gradients.size());
  const auto at = [&](size_t i) -> Residency& {
    return i < gathers ? schedule.gathers[i] : schedule.gradients[i - gathers];
  };
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return at(a).begin < at(b).begin; });
  LastAtBytes last;  // gradients
  for (const size_t i : order) {
    Residency& one = at(i);
    one.after = last.Between(one.offset, one.offset + one.bytes);
    if (i >= gathers) last.Put(one.offset, one.offset + one.bytes, static_cast<int>(i - gathers));
  }
}

using Residencies = std::vector<Residency>;

std::vector<Interval> IntervalsOf(const Residencies& gathers, const Residencies& gradients,
                                  const Residencies& parts) {
  std::vector<Interval> intervals;
  intervals.reserve(gathers.size() + gradients.size() + parts.size());
  for (const Residencies* list : {&gathers, &gradients, &parts}) {
    for (const Residency& one : *list)
      intervals.push_back({one.begin, one.end, one.bytes, 0});
  }
  return intervals;
}

// Puts params where they have to be, or finds fixed places for them.
void PlaceFixed(const ScheduleInput& input, Schedule& schedule) {
  if (input.places == nullptr) {
    schedule.fixed_bytes = ShareFixedPlaces(schedule.gathers);
    return;
  }
  schedule.fixed_bytes = input.places->bytes;
  for (Residency& one : schedule.gathers)
    one.offset = input.places->offsets[static_cast<size_t>(one.index)];
}

// Finds places for all and says which gradients had a place before.
void PlaceAll(const ScheduleInput& input, Schedule& schedule) {
  const bool fixed = input.fixes_places;
  std::vector<Interval> intervals =
      IntervalsOf(fixed ? Residencies() : schedule.gathers, schedule.gradients, schedule.parts);
  schedule.pool_bytes = PackIntervals(intervals);
  size_t next = 0;
  for (Residencies* list : {&schedule.gathers, &schedule.gradients, &schedule.parts}) {
    if (fixed && list == &schedule.gathers) continue;
    for (Residency& one : *list)
      one.offset = intervals[next++].offset;
  }
  if (fixed) PlaceFixed(input, schedule);
  FindPredecessors(fixed, schedule);
}

// HPZ: between forward and backward a part is kept of units that are resharded.
void AddParts(const ScheduleInput& input, const std::vector<Event>& events, Schedule& schedule) {
  std::vector<Residency>& gathers = schedule.gathers;
  const std::vector<size_t> nexts = NextOfUnits(gathers);
  for (size_t i = 0; i < gathers.size(); ++i) {
    const size_t next = nexts[i];
    const auto unit = static_cast<size_t>(gathers[i].index);
    const size_t bytes = input.layout->parts[unit].bytes;
    if (bytes == 0 || next == gathers.size()) continue;
    if (events[static_cast<size_t>(gathers[next].need)].kind != Kind::kPreBackward) continue;
    gathers[i].part = static_cast<int>(schedule.parts.size());
    schedule.parts.push_back({.index = gathers[i].index,
                              .need = gathers[next].need,
                              .begin = gathers[i].end,
                              .end = TimeOf(gathers[next].need),
                              .bytes = bytes});
  }
}

// What all tries to make a schedule of a step begin with.
struct Step {
  const ScheduleInput& input;
  const std::vector<Event>& events;
  const Residencies& gradients;
};

// When everything of params is there; places are still to be found.
Schedule Arrange(const Step& step, Residencies gathers, int prefetch) {
  Schedule schedule;
  schedule.gathers = std::move(gathers);
  schedule.prefetch = prefetch;
  PlacePrefetches(prefetch, step.events, step.input.places, schedule.gathers);
  AddParts(step.input, step.events, schedule);
  return schedule;
}

std::vector<Interval> IntervalsOf(const Step& step, const Schedule& arranged) {
  return IntervalsOf(arranged.gathers, step.gradients, arranged.parts);
}

// 0: there is none, or nothing that it could change.
size_t BudgetOf(const ScheduleInput& input) {
  return input.places == nullptr ? input.budget_bytes : 0;
}

// What is alive at a time is no more than the budget: a cheap question, whose no is final.
bool MayFit(const Step& step, const Schedule& arranged) {
  const size_t budget_bytes = BudgetOf(step.input);
  return budget_bytes == 0 || MostAlive(IntervalsOf(step, arranged)) <= budget_bytes;
}

// Fixed places can be found in the budget, and behind them those of what moves.
bool FitsFixed(const Step& step, const Schedule& arranged) {
  Residencies gathers = arranged.gathers;
  const size_t fixed_bytes = ShareFixedPlaces(gathers);
  if (fixed_bytes > step.input.budget_bytes) return false;
  const size_t left_bytes = step.input.budget_bytes - fixed_bytes;
  std::vector<Interval> moving = IntervalsOf({}, step.gradients, arranged.parts);
  return PackIntervals(moving, left_bytes) <= left_bytes;
}

// Places can be found in the budget.
bool Fits(const Step& step, const Schedule& arranged) {
  const size_t budget_bytes = BudgetOf(step.input);
  if (budget_bytes == 0) return true;
  if (!MayFit(step, arranged)) return false;
  if (step.input.fixes_places) return FitsFixed(step, arranged);
  std::vector<Interval> intervals = IntervalsOf(step, arranged);
  return PackIntervals(intervals, budget_bytes) <= budget_bytes;
}

// The largest number up to `most` for which `fits`, or 0; of very many to a thousandth of them. Where `may` does not hold,
// which is cheaper, only the few of a bisection are tried; below that numbers fall in growing steps, and a bisection ends it.
template <typename May, typename Does>
size_t LargestThatFits(size_t most, const May& may, const Does& fits) {
  const size_t grain = std::max<size_t>(1, most / 1024);
  const auto bisect = [grain](size_t low, size_t high, const auto& holds) {
    while (high - low > grain) {
      const size_t middle = low + (high - low) / 2;
      (holds(middle) ? low : high) = middle;
    }
    return low;
  };
  size_t tried = may(most) ? most : bisect(0, most, may);
  size_t too_many = tried + 1;
  for (size_t step = grain; tried > 0 && !fits(tried); step *= 2) {
    too_many = tried;
    tried -= std::min(step, tried);
  }
  return bisect(tried, too_many, fits);
}

// The most units ahead, up to `input.prefetch`, with which everything fits, or 0.
int LargestPrefetch(const Step& step, const Residencies& gathers) {
  const auto arranged = [&](size_t prefetch) {
    return Arrange(step, gathers, static_cast<int>(prefetch));
  };
  const size_t all = gathers.size();  // further ahead there is nothing
  const auto asked = static_cast<size_t>(std::max(step.input.prefetch, 0));
  const size_t found = LargestThatFits(
      std::min(asked, all), [&](size_t prefetch) { return MayFit(step, arranged(prefetch)); },
      [&](size_t prefetch) { return Fits(step, arranged(prefetch)); });
  return found == all ? step.input.prefetch : static_cast<int>(found);
}

// The time between two residencies of a unit, named by what begins the first.
struct Gap {
  int64_t length = 0;
  int need = 0;
  int unit = 0;
  size_t next = 0;  // the residency after it

  bool operator<(const Gap& other) const {
    return std::tie(length, need, unit) < std::tie(other.length, other.need, other.unit);
  }
};

// Those of FRACTION units, shortest first.
std::vector<Gap> GapsOf(const ScheduleInput& input, const std::vector<Residency>& gathers) {
  std::vector<Gap> gaps;
  const std::vector<size_t> nexts = NextOfUnits(gathers);
  const std::vector<bool> interrupted = InterruptedBefore(input.places, gathers);
  for (size_t i = 0; i < gathers.size(); ++i) {
    const Placement& placement = (*input.units)[static_cast<size_t>(gathers[i].index)].placement;
    const size_t next = nexts[i];
    if (placement.preset != WEFT_SHARD_FRACTION || next == gathers.size()) continue;
    if (interrupted[next]) continue;
    gaps.push_back(
        {TimeOf(gathers[next].need) - gathers[i].end, gathers[i].need, gathers[i].index, next});
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

// `gathers` with the first `count` gaps bridged: the unit stays unsharded meanwhile.
std::vector<Residency> Bridge(std::vector<Residency> gathers, const std::vector<Gap>& gaps,
                              size_t count) {
  std::vector<bool> bridged(gathers.size(), false);  // what begins after a gap
  for (size_t i = 0; i < count; ++i)
    bridged[gaps[i].next] = true;
  JoinWhere(gathers, [&](size_t i, size_t, size_t) { return bridged[i]; });
  return gathers;
}

// How many of the gaps may be bridged together, ascending: any number, or where micro-batches are to stay alike those of a
// unit that are as long as each other in all of them or in none.
std::vector<size_t> Choices(const std::vector<Gap>& gaps, bool alike) {
  std::vector<size_t> choices;
  for (size_t count = 1; count <= gaps.size(); ++count) {
    const bool splits = alike && count < gaps.size() &&
                        gaps[count].length == gaps[count - 1].length &&
                        gaps[count].unit == gaps[count - 1].unit;
    if (!splits) choices.push_back(count);
  }
  return choices;
}

// Keeps as many units of FRACTION unsharded between two uses as the budget allows.
Residencies KeepWhatFits(const Step& step, const Residencies& gathers, int prefetch, bool alike) {
  std::vector<Gap> gaps = GapsOf(step.input, gathers);
  if (BudgetOf(step.input) == 0) return Bridge(gathers, gaps, gaps.size());
  if (alike) {
    std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
      return std::tie(a.length, b.unit) < std::tie(b.length, a.unit);
    });
  }
  const std::vector<size_t> choices = Choices(gaps, alike);
  const auto bridged = [&](size_t choice) {
    return Bridge(gathers, gaps, choice == 0 ? 0 : choices[choice - 1]);
  };
  const auto arranged = [&](size_t choice) {
    return Arrange(step, bridged(choice), prefetch);
  };
  return bridged(LargestThatFits(
      choices.size(), [&](size_t choice) { return MayFit(step, arranged(choice)); },
      [&](size_t choice) { return Fits(step, arranged(choice)); }));
}

Schedule MakeWritten(const ScheduleInput& input, std::vector<Event> events, bool alike) {
  Residencies gathers = ParamNeeds(input, events);
  const std::vector<int> order = ReductionOrder(input, events);
  Residencies gradients = GradientNeeds(input, events, order);
  JoinKept(input.places, gathers);
  JoinNeighbours(gathers);
  const Step step{input, events, gradients};
  const int prefetch = BudgetOf(input) == 0 ? input.prefetch : LargestPrefetch(step, gathers);
  if (prefetch > 0 || Fits(step, Arrange(step, gathers, prefetch))) {
    gathers = KeepWhatFits(step, gathers, prefetch, alike);
  }
  Schedule schedule = Arrange(step, std::move(gathers), prefetch);
  schedule.gradients = std::move(gradients);
  PlaceAll(input, schedule);
  schedule.order = order;
  schedule.events = std::move(events);
  return schedule;
}

}  // namespace

// Micro-batches alike are looked for in a step that has fewer of them; a pattern of several may come again.
Schedule MakeSchedule(const ScheduleInput& input, std::vector<Event> events) {
  constexpr size_t kPeriodMax = 4;
  const MicrobatchRun run = LongestRun(events);
  for (size_t period = 1; period <= kPeriodMax; ++period) {
    const size_t dropped = DroppedOf(run, period);
    if (dropped == 0) break;
    Schedule schedule = MakeWritten(input, Shortened(events, run, dropped), /*alike=*/true);
    if (FindRepeat(run, period, dropped, schedule)) return schedule;
  }
  return MakeWritten(input, std::move(events), /*alike=*/false);
}

size_t LeastPoolBytes(const Schedule& schedule) {
  return MostAlive(IntervalsOf(schedule.gathers, schedule.gradients, schedule.parts));
}

}  // namespace weft
