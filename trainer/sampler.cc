#include "trainer/sampler.h"

#include <algorithm>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/permutation.h"
#include "trainer/random.h"

namespace weft::trainer {

Share ShareOf(size_t batch, size_t pieces, size_t index) {
  const size_t first = batch * index / pieces;
  return {first, batch * (index + 1) / pieces - first};
}

WindowSampler::WindowSampler(size_t text_tokens, size_t seq, size_t global_batch, uint64_t seed)
    : seq_(seq), global_batch_(global_batch), seed_(seed) {
  if (global_batch == 0) throw BadInput("--batch 0: a step needs a sequence; use 1 or more");
  const size_t windows = text_tokens == 0 ? 0 : (text_tokens - 1) / seq;
  if (windows < global_batch) {
    throw BadInput(fmt::format(
        "--batch {} --seq {} needs {} tokens of training text, there are {}; give more data or a "
        "smaller batch",
        global_batch, seq, global_batch * seq + 1, text_tokens));
  }
  // One window is given up, where there are enough, so that the grid can start anywhere in it.
  const bool spare = windows > global_batch;
  window_count_ = spare ? windows - 1 : windows;
  shift_count_ = spare ? seq : (text_tokens - 1) - windows * seq + 1;
  steps_per_epoch_ = window_count_ / global_batch;
}

void WindowSampler::StartAt(size_t step, const SamplePlace& place) {
  first_step_ = step;
  first_ = place;
}

SamplePlace WindowSampler::PlaceOf(size_t step) const {
  const size_t steps = step - first_step_;
  // What is left of the first epoch, in whole batches; every other one begins at its first window.
  const size_t left = window_count_ - std::min(first_.position, window_count_);
  const size_t in_first = left / global_batch_;
  if (steps < in_first) return {first_.epoch, first_.position + steps * global_batch_};
  const size_t after = steps - in_first;
  return {first_.epoch + 1 + after / steps_per_epoch_, (after % steps_per_epoch_) * global_batch_};
}

size_t WindowSampler::Offset(size_t step, size_t slot) const {
  const SamplePlace place = PlaceOf(step);
  const uint64_t key = Mix(Mix(seed_) + place.epoch);
  const size_t shift = BitsAt(key, ~uint64_t{0}) % shift_count_;
  return shift + Permutation(window_count_, key).At(place.position + slot) * seq_;
}

}  // namespace weft::trainer
