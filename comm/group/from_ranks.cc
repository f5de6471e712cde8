#include "comm/group/from_ranks.h"

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "comm/group/number_hash.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

constexpr uint32_t kListSalt = 0x6c697374;  // in the signature: no call of a user's is taken for it

uint64_t HashOf(const std::vector<int>& ranks) {
  NumberHash hash;
  hash.Add(ranks.size());
  for (const int rank : ranks)
    hash.Add(static_cast<uint32_t>(rank));
  return hash.Get();
}

// All ranks compare all hashes with rank 0's and so say the same.
absl::Status AgreeOn(ProcessGroup& parent, const std::vector<int>& ranks) {
  const uint64_t mine = HashOf(ranks);
  std::vector<uint64_t> all(static_cast<size_t>(parent.size()));
  Collective gather{.kind = OpKind::kAllGather,
                    .dtype = WEFT_UINT64,
                    .count = 1,
                    .purpose = {.signature_salt = kListSalt,
                                .record = PackPurpose({.kind = Purpose::Kind::kCreateFromRanks})}};
  gather.in = &mine;
  gather.out = all.data();
  WEFT_RETURN_IF_ERROR(parent.Run(gather));
  const auto outlier =
      std::find_if(all.begin(), all.end(), [&](uint64_t hash) { return hash != all[0]; });
  if (outlier == all.end()) return absl::OkStatus();
  const int rank = static_cast<int>(outlier - all.begin());
  return MakeError(WEFT_MISMATCH, {.rank = rank, .group = parent.name()},
                   fmt::format("making a group of listed ranks of {}: rank {} passed another list "
                               "than rank 0; this rank, {}, passed {}",
                               parent.name(), rank, parent.rank(), ranks));
}

}  // namespace

absl::Status CheckRanks(const std::vector<int>& ranks, int size) {
  if (ranks.empty()) return MakeError(WEFT_INVALID_ARGUMENT, "no rank is listed");
  std::vector<bool> listed(static_cast<size_t>(size));
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       fmt::format("rank {} is not one of the parent's 0..{}", rank, size - 1));
    }
    if (listed[static_cast<size_t>(rank)]) {
      return MakeError(WEFT_INVALID_ARGUMENT, fmt::format("rank {} is listed twice", rank));
    }
    listed[static_cast<size_t>(rank)] = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> CreateFromRanks(ProcessGroup& parent,
                                                              const std::vector<int>& ranks,
                                                              const GroupOptions& options) {
  WEFT_RETURN_IF_ERROR(AgreeOn(parent, ranks));
  const auto place = std::find(ranks.begin(), ranks.end(), parent.rank());
  const bool member = place != ranks.end();
  GroupOptions made = options;
  made.made_by = Purpose::Kind::kCreateFromRanks;
  return parent.Split(member ? 0 : -1, static_cast<int>(place - ranks.begin()), made);
}

}  // namespace weft
