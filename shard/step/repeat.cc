// Whether a pattern may be repeated is looked for and not assumed: what a micro-batch leaves resident depends on prefetching,
// the budget and the packing, and a wrong guess would place two things at once. The schedule of a shortened step is
// made first; only if one pattern of it is the one before, moved in time, any number of them may stand in its place.
#include "shard/step/repeat.h"

#include <algorithm>

namespace weft {
namespace {

using Kind = Event::Kind;

// A step of no more micro-batches alike is written whole.
constexpr size_t kWritten = 8;

struct CallRange {
  size_t first = 0;
  size_t count = 0;
};

std::vector<CallRange> MicrobatchesOf(const std::vector<Event>& events) {
  std::vector<CallRange> found;
  for (size_t at = 0; at < events.size(); ++at) {
    if (events[at].kind == Kind::kMicrobatchBegin) found.push_back({.first = at});
    if (!found.empty() && events[at].kind == Kind::kMicrobatchEnd && found.back().count == 0) {
      found.back().count = at + 1 - found.back().first;
    }
  }
  return found;
}

bool Alike(const std::vector<Event>& events, const CallRange& a, const CallRange& b) {
  return a.count == b.count && a.first + a.count == b.first &&
         std::equal(events.begin() + static_cast<std::ptrdiff_t>(a.first),
                    events.begin() + static_cast<std::ptrdiff_t>(a.first + a.count),
                    events.begin() + static_cast<std::ptrdiff_t>(b.first));
}

// Those of a list, which is in the order of need, that are needed in [first, first + count) events.
Repeat::List NeededIn(const std::vector<Residency>& list, size_t first, size_t count) {
  const auto from = [&](size_t event) {
    return static_cast<size_t>(std::partition_point(list.begin(), list.end(),
                                                    [&](const Residency& one) {
                                                      return static_cast<size_t>(one.need) < event;
                                                    }) -
                               list.begin());
  };
  const size_t begin = from(first);
  return {begin, from(first + count) - begin};
}

// What a pattern's residencies need of the gradients before them, as the next pattern says it.
std::vector<int> ShiftedAfter(const Residency& one, const Repeat& repeat) {
  const auto moves_from = static_cast<int>(repeat.gradients.first - repeat.gradients.count);
  std::vector<int> after = one.after;
  for (int& before : after) {
    if (before >= moves_from) before += static_cast<int>(repeat.gradients.count);
  }
  return after;
}

// The pattern's residencies come again one pattern later.
bool ComeAgain(const Repeat& repeat, const Repeat::List& list, const Schedule& schedule,
               const std::vector<Residency>& written) {
  if (list.first + 2 * list.count > written.size()) return false;
  const auto shift = static_cast<int>(repeat.events.count);
  const auto place_of_part = [&](const Residency& one) {
    return one.part < 0 ? ~size_t{0} : schedule.parts[static_cast<size_t>(one.part)].offset;
  };
  for (size_t i = list.first; i < list.first + list.count; ++i) {
    const Residency& one = written[i];
    const Residency& next = written[i + list.count];
    const bool same = one.index == next.index && one.need + shift == next.need &&
                      one.begin + 2 * shift == next.begin && one.end + 2 * shift == next.end &&
                      one.bytes == next.bytes && one.offset == next.offset &&
                      place_of_part(one) == place_of_part(next) &&
                      ShiftedAfter(one, repeat) == next.after;
    if (!same) return false;
  }
  return true;
}

}  // namespace

MicrobatchRun LongestRun(const std::vector<Event>& events) {
  const std::vector<CallRange> microbatches = MicrobatchesOf(events);
  MicrobatchRun longest;
  for (size_t i = 0; i < microbatches.size();) {
    size_t end = i + 1;
    while (end < microbatches.size() && Alike(events, microbatches[end - 1], microbatches[end]))
      ++end;
    const MicrobatchRun run{microbatches[i].first, microbatches[i].count, end - i};
    if (run.event_count * run.count > longest.event_count * longest.count) longest = run;
    i = end;
  }
  return longest;
}

size_t DroppedOf(const MicrobatchRun& run, size_t period) {
  const size_t kept = kWritten + period;
  return run.count > kept ? (run.count - kept + period - 1) / period * period : 0;
}

std::vector<Event> Shortened(const std::vector<Event>& events, const MicrobatchRun& run,
                             size_t dropped) {
  const size_t end = run.first_event + run.event_count * run.count;
  const auto at = [&](size_t event) {
    return events.begin() + static_cast<std::ptrdiff_t>(event);
  };
  std::vector<Event> shortened(events.begin(), at(end - dropped * run.event_count));
  shortened.insert(shortened.end(), at(end), events.end());
  return shortened;
}

// The first micro-batch of a run, and the last, have neighbours of another kind.
bool FindRepeat(const MicrobatchRun& run, size_t period, size_t dropped, Schedule& schedule) {
  const size_t kept = run.count - dropped;
  for (size_t first = 1; first + 2 * period < kept; ++first) {
    Repeat repeat{.times = dropped / period,
                  .events = {run.first_event + first * run.event_count, period * run.event_count}};
    repeat.gathers = NeededIn(schedule.gathers, repeat.events.first, repeat.events.count);
    repeat.gradients = NeededIn(schedule.gradients, repeat.events.first, repeat.events.count);
    if (repeat.gradients.first < repeat.gradients.count) continue;
    if (!ComeAgain(repeat, repeat.gathers, schedule, schedule.gathers)) continue;
    if (!ComeAgain(repeat, repeat.gradients, schedule, schedule.gradients)) continue;
    schedule.repeat = repeat;
    return true;
  }
  return false;
}

Occurrence::Occurrence(const Repeat& repeat, const Repeat::List& list,
                       const std::vector<Residency>& written, size_t number)
    : repeat_(&repeat) {
  if (repeat.times > 0 && number >= list.first) {
    const size_t behind = list.first + (repeat.times + 1) * list.count;
    where_ = number < behind ? Where::kWithin : Where::kBehind;
    rounds_ = where_ == Where::kBehind ? repeat.times : (number - list.first) / list.count;
    number -= rounds_ * list.count;
  }
  written_ = &written[number];
}

// What lasts from before the pattern until it has come for the last time ends that much later.
int64_t Occurrence::end() const {
  const auto behind = static_cast<int64_t>(repeat_->events.first + repeat_->events.count);
  if (where_ == Where::kBefore && repeat_->times > 0 && written_->end >= 2 * behind) {
    return written_->end + static_cast<int64_t>(2 * repeat_->times * repeat_->events.count);
  }
  return written_->end + 2 * Shift();
}

size_t Occurrence::after(size_t i) const {
  const auto before = static_cast<size_t>(written_->after[i]);
  const Repeat::List& gradients = repeat_->gradients;
  const size_t moves_from =
      where_ == Where::kWithin ? gradients.first - gradients.count : gradients.first;
  return before >= moves_from ? before + rounds_ * gradients.count : before;
}

const Event& Schedule::EventAt(size_t number) const {
  const size_t behind = repeat.events.first + (repeat.times + 1) * repeat.events.count;
  if (repeat.times > 0 && number >= behind) {
    number -= repeat.times * repeat.events.count;
  } else if (repeat.times > 0 && number >= repeat.events.first) {
    number = repeat.events.first + (number - repeat.events.first) % repeat.events.count;
  }
  return events[number];
}

std::vector<Event> Schedule::AllEvents() const {
  std::vector<Event> all;
  all.reserve(event_count());
  for (size_t number = 0; number < event_count(); ++number)
    all.push_back(EventAt(number));
  return all;
}

}  // namespace weft
