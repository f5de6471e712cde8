// What ranks tell each other of measured links while a group is made: all choose schedules by the same numbers, bit for bit.
//
//   store.Set(key, TextOf(cost));
//   costs.push_back(*LinkCostFromText(what another island says));
//   const LinkCost slowest = Slowest(costs);
//   WEFT_RETURN_IF_ERROR(HearLinks(*inner, deadline_ns, &model));     // what the island's first rank has
//
// Thread-safety: values and pure functions, but for HearLinks, which is collective over the island's ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "comm/group/process_group.h"
#include "comm/select/link_model.h"

namespace weft {

// One line. Nanoseconds per byte are rounded to 2^-20.
std::string TextOf(const LinkCost& cost);
// Nothing if the text is none, or has numbers that no link has.
std::optional<LinkCost> LinkCostFromText(std::string_view text);

// The worst of each number; of at least one.
LinkCost Slowest(std::span<const LinkCost> costs);

// Gives all ranks of `inner` the model that its rank 0 has. Errors: as ProcessGroup::Run.
absl::Status HearLinks(ProcessGroup& inner, int64_t deadline_ns, LinkModel* model);

// For a person: "15 us, 3 us of a rank's time for a message, 25 Gbit/s".
std::string DescribeLink(const LinkCost& cost);

}  // namespace weft
