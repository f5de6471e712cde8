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

// A program may leave anything in a struct.
absl::Status CheckNorm(const char* call, const char* name, const weft_shard_norm_t& norm) {
  const auto invalid = [&](std::string_view what) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                     StrCat(call, ": ", name, " has ", what,
                            "; pass one of weft_shard_gradient_norm, or a sum of such"));
  };
  if (!std::isfinite(norm.loss_scale) || norm.loss_scale <= 0)
    return invalid(StrCat("loss_scale ", norm.loss_scale));
  if (norm.nonfinite < 0) return invalid(StrCat("nonfinite ", norm.nonfinite));
  const double squares = ExactSum(SquaresOf(norm)).Value();
  const bool all_finite = std::isfinite(squares) && std::isfinite(norm.norm);
  if (norm.nonfinite == 0 && !all_finite)
    return invalid("nonfinite 0 and a norm that is not finite");
  if (squares < 0 || norm.norm < 0) return invalid("a sum of squares below 0");
  return absl::OkStatus();
}

absl::Status AddNorm(const weft_shard_norm_t& other, weft_shard_norm_t* norm) {
  WEFT_RETURN_IF_ERROR(CheckNorm("shard_norm_add", "norm", *norm));
  WEFT_RETURN_IF_ERROR(CheckNorm("shard_norm_add", "other", other));
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
  if (update.norm == nullptr) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckNorm("shard_optimizer_step", "norm", *update.norm));
  if (update.norm->loss_scale == loss_scale) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "shard_optimizer_step"},
                   StrCat("shard_optimizer_step: norm is of gradients with loss scale ",
                          update.norm->loss_scale, ", this context's have ", loss_scale));
}

}  // namespace weft
