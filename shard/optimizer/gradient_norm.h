// The global norm as programs see it: an exact sum of squares, which further contexts' may be added to.
//
//   weft_shard_norm_t norm = NormOf(words, loss_scale);       // words: added over ranks
//   WEFT_RETURN_IF_ERROR(AddNorm(other, &norm));
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "weft/shard_step.h"

#include "absl/status/status.h"
#include "shard/optimizer/exact_sum.h"

namespace weft {

// `words`: those of the squares, then how many elements are not finite.
weft_shard_norm_t NormOf(std::span<const int64_t> words, double loss_scale);

ExactSum::Words SquaresOf(const weft_shard_norm_t& norm);

// INVALID_ARGUMENT, about the argument `name` of `call`, if it is not what weft_shard_gradient_norm
// writes, or a sum of such.
absl::Status CheckNorm(const char* call, const char* name, const weft_shard_norm_t& norm);

// INVALID_ARGUMENT if the gradients have different loss scales, or one of the two is no norm.
absl::Status AddNorm(const weft_shard_norm_t& other, weft_shard_norm_t* norm);

// INVALID_ARGUMENT if a norm is given, and is of gradients with another loss scale, or none.
absl::Status CheckUpdate(const weft_shard_update_t& update, double loss_scale);

}  // namespace weft
