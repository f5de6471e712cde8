#include "shard/optimizer/update_agreement.h"

#include <bit>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"

namespace weft {
namespace {

// As it travels. -0 is 0.
struct Numbers {
  double learning_rate = 0;
  double norm_max = 0;
};

Numbers NumbersOf(const weft_shard_update_t& update) {
  return {update.learning_rate + 0.0, update.norm_max + 0.0};
}

std::string TextOf(const Numbers& numbers, const Numbers& other) {
  std::string text;
  if (numbers.learning_rate != other.learning_rate) {
    text = StrCat("learning_rate ", numbers.learning_rate);
  }
  if (numbers.norm_max != other.norm_max) {
    text += StrCat(text.empty() ? "" : ", ", "norm_max ", numbers.norm_max);
  }
  return text;
}

}  // namespace

int64_t UpdateMark(const weft_shard_update_t& update) {
  const Numbers numbers = NumbersOf(update);
  NumberHash hash;
  hash.Add(std::bit_cast<uint64_t>(numbers.learning_rate));
  hash.Add(std::bit_cast<uint64_t>(numbers.norm_max));
  return static_cast<int64_t>(hash.Get());
}

bool MarksDiffer(int64_t sum, const weft_shard_update_t& update, int ranks) {
  const auto own = static_cast<uint64_t>(UpdateMark(update));
  return static_cast<uint64_t>(sum) != own * static_cast<uint64_t>(ranks);
}

absl::Status ExplainUpdates(ProcessGroup& group, const weft_shard_update_t& update,
                            int64_t timeout_ns, const CallPurpose& purpose) {
  const Numbers own = NumbersOf(update);
  WEFT_ASSIGN_OR_RETURN(const std::vector<Numbers> all,
                        GatherValue(group, own, timeout_ns, purpose));
  std::vector<Digest> digests;
  for (const Numbers& numbers : all)
    digests.push_back(DigestOf(&numbers, sizeof(numbers)));
  const Sides sides = SidesOf(digests);
  if (sides.size() < 2) {
    return MakeError(WEFT_CORRUPT, {.group = group.name(), .operation = "optimizer_step"},
                     StrCat("optimizer_step on group ", group.name(),
                            ": learning_rate and norm_max differed between ranks and then did not; "
                            "check the memory and the links of this machine"));
  }
  // The last side has the fewest ranks.
  const std::vector<int>& outlier = sides.back();
  const Numbers& outlier_numbers = all[static_cast<size_t>(outlier[0])];
  const Numbers& numbers = all[static_cast<size_t>(sides[0][0])];
  return MakeError(WEFT_MISMATCH, CulpritOf(group, outlier[0], "optimizer_step"),
                   StrCat("optimizer_step on group ", group.name(), ": ", RankList(outlier),
                          " passed ", TextOf(outlier_numbers, numbers), ", ", RankList(sides[0]),
                          " passed ", TextOf(numbers, outlier_numbers),
                          "; pass the same on every rank: nothing was updated"));
}

}  // namespace weft
