#include "shard/optimizer/update_agreement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

// As it travels. -0 is 0. The last one is 1 if there is no update, because gradients are dropped.
using Numbers = std::array<double, 6>;
constexpr std::array<const char*, 5> kNames = {"learning_rate", "norm_max", "gradient_factor",
                                               "norm", "norm's nonfinite"};

Numbers NumbersOf(const weft_shard_update_t* update) {
  if (update == nullptr) return {0, 0, 0, 0, 0, 1};
  const weft_shard_norm_t none{.norm = -1};
  const weft_shard_norm_t& norm = update->norm != nullptr ? *update->norm : none;
  return {update->learning_rate + 0.0,
          update->norm_max + 0.0,
          update->gradient_factor == 0 ? 1 : update->gradient_factor,
          norm.norm,
          static_cast<double>(norm.nonfinite),
          0};
}

const char* CallOf(const Numbers& numbers) {
  return numbers.back() == 1 ? "drop_gradients" : "optimizer_step";
}

std::string TextOf(const Numbers& numbers, const Numbers& other) {
  std::string text;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (std::bit_cast<uint64_t>(numbers[i]) == std::bit_cast<uint64_t>(other[i])) continue;
    text += StrCat(text.empty() ? "" : ", ", kNames[i], " ", numbers[i]);
  }
  return text;
}

// Those of a group's numbers, "name value" each, that the other has not.
std::string NumbersNotIn(const std::string& text, const std::string& other) {
  const std::vector<std::string> all = absl::StrSplit(text, ", ");
  const std::vector<std::string> others = absl::StrSplit(other, ", ");
  std::vector<std::string> left;
  for (const std::string& number : all) {
    if (std::find(others.begin(), others.end(), number) == others.end()) left.push_back(number);
  }
  return absl::StrJoin(left, ", ");
}

// The updates are the same.
absl::Status ExplainGroups(ProcessGroup& group, const char* call,
                           std::span<const OptimizerGroup> groups, int64_t timeout_ns,
                           const CallPurpose& purpose) {
  std::vector<Digest> digests;
  for (const OptimizerGroup& of : groups) {
    const std::string text = GroupText(of);
    digests.push_back(DigestOf(text.data(), text.size()));
  }
  WEFT_ASSIGN_OR_RETURN(const std::optional<Difference> difference,
                        FirstDifference(group, digests, timeout_ns, 1, purpose));
  if (!difference.has_value()) return NotSeenAgain(group, call);
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      GatherText(group, GroupText(groups[difference->index]), timeout_ns, purpose));
  const std::vector<int>& outlier = difference->sides.back();
  const std::vector<int>& usual = difference->sides[0];
  const std::string& outlier_text = texts[static_cast<size_t>(outlier[0])];
  const std::string& text = texts[static_cast<size_t>(usual[0])];
  return MakeError(
      WEFT_MISMATCH, CulpritOf(group, outlier[0], call),
      StrCat(call, " on group ", group.name(), ": param group ", difference->index, ": ",
             RankList(outlier), " set ", NumbersNotIn(outlier_text, text), ", ", RankList(usual),
             " set ", NumbersNotIn(text, outlier_text),
             "; call weft_shard_param_group_set alike on every rank: nothing was updated"));
}

}  // namespace

int64_t UpdateMark(const weft_shard_update_t* update, uint64_t groups_mark) {
  const Numbers numbers = NumbersOf(update);
  NumberHash hash;
  for (const double number : numbers)
    hash.Add(std::bit_cast<uint64_t>(number));
  hash.Add(groups_mark);
  return static_cast<int64_t>(hash.Get());
}

bool MarksDiffer(int64_t sum, int64_t own, int ranks) {
  return static_cast<uint64_t>(sum) != static_cast<uint64_t>(own) * static_cast<uint64_t>(ranks);
}

absl::Status NotSeenAgain(const ProcessGroup& group, const char* call) {
  return MakeError(WEFT_CORRUPT, {.group = group.name(), .operation = call},
                   StrCat(call, " on group ", group.name(),
                          ": the numbers differed between ranks and then did not; "
                          "check the memory and the links of this machine"));
}

absl::Status ExplainUpdates(ProcessGroup& group, const weft_shard_update_t* update,
                            std::span<const OptimizerGroup> groups, int64_t timeout_ns,
                            const CallPurpose& purpose) {
  const Numbers own = NumbersOf(update);
  WEFT_ASSIGN_OR_RETURN(const std::vector<Numbers> all,
                        GatherValue(group, own, timeout_ns, purpose));
  std::vector<Digest> digests;
  for (const Numbers& numbers : all)
    digests.push_back(DigestOf(&numbers, sizeof(numbers)));
  const Sides sides = SidesOf(digests);
  if (sides.size() < 2) return ExplainGroups(group, CallOf(own), groups, timeout_ns, purpose);
  // The last side has the fewest ranks.
  const std::vector<int>& outlier = sides.back();
  const Numbers& outlier_numbers = all[static_cast<size_t>(outlier[0])];
  const Numbers& numbers = all[static_cast<size_t>(sides[0][0])];
  const char* const call = CallOf(own);
  const bool calls_differ = outlier_numbers.back() != numbers.back();
  const std::string what =
      calls_differ
          ? StrCat(RankList(outlier), " called ", CallOf(outlier_numbers), ", ", RankList(sides[0]),
                   " called ", CallOf(numbers), "; make the same call on every rank")
          : StrCat(RankList(outlier), " passed ", TextOf(outlier_numbers, numbers), ", ",
                   RankList(sides[0]), " passed ", TextOf(numbers, outlier_numbers),
                   "; pass the same on every rank");
  return MakeError(WEFT_MISMATCH, CulpritOf(group, outlier[0], call),
                   StrCat(call, " on group ", group.name(), ": ", what, ": nothing was updated"));
}

}  // namespace weft
