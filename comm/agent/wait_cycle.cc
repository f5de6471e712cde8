#include "comm/agent/wait_cycle.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"

namespace weft {
namespace {

// More processes than any island has; what is shown comes from others and is not to be followed without end.
constexpr size_t kProcessesMax = 64;

struct Reached {
  ProcessWait wait;
  size_t from = 0;  // index of who waits for it
};

}  // namespace

std::vector<ProcessWait> FindWaitCycle(const ProcessWait& own, const ReadProcessWait& read) {
  std::vector<Reached> reached = {{own, 0}};
  for (size_t i = 0; i < reached.size() && reached.size() <= kProcessesMax; ++i) {
    const ProcessWait waiting = reached[i].wait;  // a copy: the list grows
    const size_t count = std::min<size_t>(waiting.awaited_count, ProcessWait::kAwaitedMax);
    for (size_t k = 0; k < count; ++k) {
      const ProcessName& awaited = waiting.awaited[k];
      if (awaited == own.process && i > 0) {
        std::vector<ProcessWait> cycle;
        for (size_t at = i; at > 0; at = reached[at].from)
          cycle.push_back(reached[at].wait);
        cycle.push_back(own);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      const bool known = std::any_of(reached.begin(), reached.end(), [&](const Reached& one) {
        return one.wait.process == awaited;
      });
      if (known) continue;
      if (const std::optional<ProcessWait> wait = read(awaited)) reached.push_back({*wait, i});
    }
  }
  return {};
}

std::string CycleText(const std::vector<ProcessWait>& cycle) {
  std::string text = "CROSS_GROUP_DEADLOCK: ";
  for (const ProcessWait& wait : cycle) {
    const size_t bytes = strnlen(wait.call, sizeof(wait.call));
    text +=
        fmt::format("pid {}, {}, waits for ", wait.process.pid, std::string_view(wait.call, bytes));
  }
  return text + fmt::format(
                    "pid {} again; unless other threads of theirs go on, only a deadline "
                    "ends this: all must call in the same order over all groups",
                    cycle.front().process.pid);
}

}  // namespace weft
