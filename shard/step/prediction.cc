// Uses are a forest: of each outer unit the uses inside it, in their order. Numbers fall from the inside out, so it has no cycle.
#include "shard/step/prediction.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

using Kind = Event::Kind;

// Uses of units, by the unit that they are inside of; the last list has the outermost ones.
using Nesting = std::vector<std::vector<int>>;

Nesting NestingOf(const std::vector<int>& order, const std::vector<int>& within) {
  size_t units = within.size();
  for (const int unit : order)
    units = std::max(units, static_cast<size_t>(unit) + 1);
  std::vector<char> used(units);
  for (const int unit : order)
    used[static_cast<size_t>(unit)] = 1;
  Nesting nesting(units + 1);
  for (const int unit : order) {
    const auto index = static_cast<size_t>(unit);
    const int outer = index < within.size() ? within[index] : -1;
    const bool inside = outer >= 0 && used[static_cast<size_t>(outer)] != 0;
    nesting[inside ? static_cast<size_t>(outer) : units].push_back(unit);
  }
  return nesting;
}

void AppendForward(const Nesting& nesting, size_t outer, std::vector<Event>* events) {
  for (const int unit : nesting[outer]) {
    events->push_back({Kind::kPreForward, unit});
    AppendForward(nesting, static_cast<size_t>(unit), events);
    events->push_back({Kind::kPostForward, unit});
  }
}

void AppendBackward(const Nesting& nesting, size_t outer, std::vector<Event>* events) {
  for (auto unit = nesting[outer].rbegin(); unit != nesting[outer].rend(); ++unit) {
    events->push_back({Kind::kPreBackward, *unit});
    AppendBackward(nesting, static_cast<size_t>(*unit), events);
    events->push_back({Kind::kPostBackward, *unit});
  }
}

// `append` adds what each micro-batch has between its begin and its end.
template <typename Append>
std::vector<Event> StepOf(int microbatches, const Append& append) {
  std::vector<Event> events;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    events.push_back({Kind::kMicrobatchBegin, microbatch == microbatches - 1 ? 1 : 0});
    append(&events);
    events.push_back({Kind::kMicrobatchEnd, 0});
  }
  events.push_back({Kind::kFinish, 0});
  return events;
}

}  // namespace

std::vector<Event> PredictEvents(size_t units, bool train, int microbatches) {
  std::vector<int> order(units);
  std::iota(order.begin(), order.end(), 0);
  return PredictEvents(order, {}, train, microbatches);
}

std::vector<Event> PredictEvents(const std::vector<int>& order, bool train, int microbatches) {
  return PredictEvents(order, {}, train, microbatches);
}

std::vector<Event> PredictEvents(const std::vector<int>& order, const std::vector<int>& within,
                                 bool train, int microbatches) {
  const Nesting nesting = NestingOf(order, within);
  const size_t outermost = nesting.size() - 1;
  return StepOf(microbatches, [&](std::vector<Event>* events) {
    AppendForward(nesting, outermost, events);
    if (train) AppendBackward(nesting, outermost, events);
  });
}

std::vector<Event> PredictEvents(const std::vector<UnitRun>& runs, bool train, int microbatches) {
  return StepOf(microbatches, [&](std::vector<Event>* events) {
    for (const UnitRun& run : runs) {
      if (run.backward && !train) continue;
      events->push_back({run.backward ? Kind::kPreBackward : Kind::kPreForward, run.unit});
      events->push_back({run.backward ? Kind::kPostBackward : Kind::kPostForward, run.unit});
    }
  });
}

}  // namespace weft
