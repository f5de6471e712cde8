#include "comm/hierarchy/link_word.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr double kPartsOfNs = 1 << 20;
// No link is slower than ten seconds, or half a megabit per second. So no simulated time is more than an int64_t holds.
constexpr int64_t kTimeMaxNs = 10'000'000'000;
constexpr int64_t kPartsMax = int64_t{1} << 34;
constexpr double kBitsPerByte = 8;

int64_t PartsPerByte(const LinkCost& cost) {
  return std::clamp<int64_t>(std::llround(cost.ns_per_byte * kPartsOfNs), 1, kPartsMax);
}

static_assert(
    std::is_trivially_copyable_v<LinkModel>);  // said as it lies between ranks of one machine

}  // namespace

std::string TextOf(const LinkCost& cost) {
  return fmt::format("link {} {} {}", cost.latency_ns, cost.overhead_ns, PartsPerByte(cost));
}

std::optional<LinkCost> LinkCostFromText(std::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(ToAbsl(text), ' ');
  LinkCost cost;
  int64_t per_byte = 0;
  const bool read =
      parts.size() == 4 && parts[0] == "link" && absl::SimpleAtoi(parts[1], &cost.latency_ns) &&
      absl::SimpleAtoi(parts[2], &cost.overhead_ns) && absl::SimpleAtoi(parts[3], &per_byte);
  const auto good = [](int64_t time_ns) {
    return time_ns >= 0 && time_ns <= kTimeMaxNs;
  };
  if (!read || !good(cost.latency_ns) || !good(cost.overhead_ns)) return std::nullopt;
  if (per_byte < 1 || per_byte > kPartsMax) return std::nullopt;
  cost.ns_per_byte = static_cast<double>(per_byte) / kPartsOfNs;
  return cost;
}

LinkCost Slowest(std::span<const LinkCost> costs) {
  LinkCost slowest;
  for (const LinkCost& cost : costs) {
    slowest.latency_ns = std::max(slowest.latency_ns, cost.latency_ns);
    slowest.overhead_ns = std::max(slowest.overhead_ns, cost.overhead_ns);
    slowest.ns_per_byte = std::max(slowest.ns_per_byte, cost.ns_per_byte);
  }
  return slowest;
}

absl::Status HearLinks(ProcessGroup& inner, int64_t deadline_ns, LinkModel* model) {
  LinkModel heard = *model;
  Collective broadcast{.kind = OpKind::kBroadcast,
                       .dtype = WEFT_UINT8,
                       .count = sizeof(heard),
                       .in = model,
                       .out = &heard};
  broadcast.timeout_ns = std::max<int64_t>(1, deadline_ns - MonotonicNs());
  WEFT_RETURN_IF_ERROR(inner.Run(broadcast));
  *model = heard;
  return absl::OkStatus();
}

std::string DescribeLink(const LinkCost& cost) {
  return fmt::format("{:.4g} us, {:.4g} us of a rank's time for a message, {:.4g} Gbit/s",
                     static_cast<double>(cost.latency_ns) / 1e3,
                     static_cast<double>(cost.overhead_ns) / 1e3, kBitsPerByte / cost.ns_per_byte);
}

}  // namespace weft
