// The words are integers, so one all_reduce adds them exactly. A hash of the loss scale goes with
// them; the scales themselves are gathered only if the hashes differ.
#include "shard/optimizer/norm_sum.h"

#include <bit>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "comm/group/purpose.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/checks/rank_list.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/gradient_norm.h"
#include "shard/optimizer/update_agreement.h"

namespace weft {
namespace {

constexpr char kCall[] = "shard_norm_sum";

CallPurpose NormSumPurpose() {
  const Purpose purpose{.kind = Purpose::Kind::kNormSum};
  return {.signature_salt = SignatureSaltOf(purpose), .record = PackPurpose(purpose)};
}

int64_t MarkOf(double loss_scale) {
  NumberHash hash;
  hash.Add(std::bit_cast<uint64_t>(loss_scale));
  return static_cast<int64_t>(hash.Get());
}

absl::Status ExplainScales(ProcessGroup& group, double own) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<double> scales,
                        GatherValue(group, own, /*timeout_ns=*/0, NormSumPurpose()));
  std::vector<Digest> digests;
  for (const double scale : scales)
    digests.push_back(DigestOf(&scale, sizeof(scale)));
  const Sides sides = SidesOf(digests);
  if (sides.size() < 2) return NotSeenAgain(group, kCall);
  // The last side has the fewest ranks.
  const std::vector<int>& outlier = sides.back();
  const std::vector<int>& usual = sides[0];
  return MakeError(
      WEFT_MISMATCH, CulpritOf(group, outlier[0], kCall),
      StrCat(kCall, " on group ", group.name(), ": the gradients of ", RankList(outlier),
             " have loss scale ", scales[static_cast<size_t>(outlier[0])], ", those of ",
             RankList(usual), " have ", scales[static_cast<size_t>(usual[0])],
             "; give the contexts of all parts the same loss scale, and update them with the same "
             "norm in every step"));
}

}  // namespace

absl::StatusOr<weft_shard_norm_t> SumNorms(ProcessGroup& group, const weft_shard_norm_t& part) {
  WEFT_RETURN_IF_ERROR(CheckNorm(kCall, "norm", part));
  // Carried: a caller may have added words by itself.
  const ExactSum::Words squares = ExactSum(SquaresOf(part)).words();
  std::vector<int64_t> words(squares.begin(), squares.end());
  words.push_back(part.nonfinite);
  const int64_t mark = MarkOf(part.loss_scale);
  words.push_back(mark);
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllReduce,
                                  .dtype = WEFT_INT64,
                                  .op = WEFT_SUM,
                                  .count = words.size(),
                                  .purpose = NormSumPurpose(),
                                  .in = words.data(),
                                  .out = words.data()}));
  if (MarksDiffer(words.back(), mark, group.size())) return ExplainScales(group, part.loss_scale);
  words.pop_back();
  return NormOf(words, part.loss_scale);
}

}  // namespace weft
