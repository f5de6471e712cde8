#include "shard/optimizer/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "base/status.h"
#include "base/text.h"

namespace weft {

static_assert(std::tuple_size_v<ExactSum::Words> == WEFT_SHARD_NORM_WORDS);

weft_shard_norm_t NormOf(std::span<const int64_t> words, double loss_scale) {
  weft_shard_norm_t norm = {};
  norm.struct_size = sizeof(norm);
  norm.loss_scale = loss_scale;
  ExactSum::Words added = {};
  std::copy_n(words.begin(), added.size(), added.begin());
  // In the only form that equal sums have.
  const ExactSum sum(added);
  const ExactSum::Words carried = sum.words();
  std::copy(carried.begin(), carried.end(), norm.squares);
  norm.nonfinite = words[added.size()];
  norm.norm = std::sqrt(sum.Value()) / loss_scale;
  return norm;
}

ExactSum::Words SquaresOf(const weft_shard_norm_t& norm) {
  ExactSum::Words words = {};
  std::copy(std::begin(norm.squares), std::end(norm.squares), words.begin());
  return words;
}

absl::Status AddNorm(const weft_shard_norm_t& other, weft_shard_norm_t* norm) {
  if (other.loss_scale != norm->loss_scale) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "shard_norm_add"},
                     StrCat("shard_norm_add: the gradients have loss scales ", norm->loss_scale,
                            " and ", other.loss_scale, ", which must be the same"));
  }
  // Carried, so that any number of sums may be added.
  ExactSum sum(SquaresOf(*norm));
  sum.Merge(ExactSum(SquaresOf(other)));
  const ExactSum::Words words = sum.words();
  std::copy(words.begin(), words.end(), norm->squares);
  norm->nonfinite += other.nonfinite;
  norm->norm = std::sqrt(sum.Value()) / norm->loss_scale;
  return absl::OkStatus();
}

absl::Status CheckUpdate(const weft_shard_update_t& update, double loss_scale) {
  if (update.norm == nullptr || update.norm->loss_scale == loss_scale) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "shard_optimizer_step"},
                   StrCat("shard_optimizer_step: norm is of gradients with loss scale ",
                          update.norm->loss_scale, ", this context's have ", loss_scale));
}

}  // namespace weft
