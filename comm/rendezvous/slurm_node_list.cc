#include "comm/rendezvous/slurm_node_list.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<std::string> FirstSlurmHost(std::string_view node_list) {
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ',';) {
    if (node_list[at] != '[') {
      host += node_list[at++];
      continue;
    }
    const size_t close = node_list.find(']', at);
    if (close == std::string_view::npos) {
      return MakeError(WEFT_INVALID_USAGE, StrCat("\"", node_list, "\" has a '[' without its ']'"));
    }
    const std::string_view ranges = node_list.substr(at + 1, close - at - 1);
    host += ranges.substr(0, ranges.find_first_of(",-"));
    at = close + 1;
  }
  // What a host name or address may hold; anything else is not a node list.
  const bool plausible = !host.empty() && host.size() <= 253 &&
                         host.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") == std::string::npos;
  if (!plausible) {
    return MakeError(WEFT_INVALID_USAGE, StrCat("\"", node_list, "\" names no first host"));
  }
  return host;
}

absl::StatusOr<int> SlurmTasksOfNode(std::string_view tasks_per_node, int node_index) {
  int nodes = 0;
  for (const absl::string_view piece : absl::StrSplit(ToAbsl(tasks_per_node), ',')) {
    const std::string_view part = FromAbsl(piece);
    int repeat = 1;
    const size_t open = part.find("(x");
    if (open != std::string_view::npos &&
        (!part.ends_with(')') ||
         !absl::SimpleAtoi(ToAbsl(part.substr(open + 2, part.size() - open - 3)), &repeat))) {
      repeat = 0;
    }
    int tasks = 0;
    if (!absl::SimpleAtoi(ToAbsl(part.substr(0, open)), &tasks) || tasks < 1 || repeat < 1 ||
        repeat > 1 << 20) {
      break;
    }
    if (node_index < nodes + repeat) return tasks;
    nodes += repeat;
  }
  return MakeError(WEFT_INVALID_USAGE,
                   StrCat("\"", tasks_per_node, "\" says nothing of node ", node_index));
}

}  // namespace weft
