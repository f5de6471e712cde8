#include "comm/rendezvous/fake_nodes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::Status NoNodes(std::string_view nodes, int size) {
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      fmt::format("WEFT_FAKE_NODES={} cuts no group of {} ranks: give a number of nodes "
                  "from 1 on, or the node of each rank, {} numbers",
                  nodes, size, size));
}

}  // namespace

absl::StatusOr<int> FakeNodeOf(std::string_view nodes, int rank, int size) {
  if (nodes.empty()) return -1;
  const std::vector<absl::string_view> parts = absl::StrSplit(ToAbsl(nodes), ',');
  std::vector<int> numbers(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], &numbers[i]) || numbers[i] < 0) return NoNodes(nodes, size);
  }
  if (numbers.size() == 1) {
    if (numbers[0] < 1) return NoNodes(nodes, size);
    const int count = std::min(numbers[0], size);
    // The first size % count of them have one rank more.
    const int least = size / count;
    const int larger = size % count;
    const int in_larger = larger * (least + 1);
    return rank < in_larger ? rank / (least + 1) : larger + (rank - in_larger) / least;
  }
  if (numbers.size() != static_cast<size_t>(size)) return NoNodes(nodes, size);
  return numbers[static_cast<size_t>(rank)];
}

}  // namespace weft
